//! `isocast plan FILE` on files that ffmpeg makes, compared with the duration that ffprobe finds.

#[path = "../../isocast/tests/common/skip.rs"]
mod skip;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn plan(arguments: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isocast-lab"));
    command.args(["plan", "--json"]).args(arguments).output().expect("it was built")
}

/// How a file is made: its name, its options, and from what its rate is found.
const MADE: [(&str, &str, &str); 16] = [
    ("tables.mp4", "-c:v mpeg4 -b:v 400k -c:a aac", "sample-tables"),
    ("hint.mp4", "-c:v libx264 -preset ultrafast -b:v 400k -c:a aac -movflags rtphint", "sample-tables"),
    ("tables.mov", "-c:v mpeg4 -b:v 400k -c:a pcm_s16le", "sample-tables"),
    (
        "fragments.mp4",
        "-c:v mpeg4 -b:v 400k -g 25 -c:a aac -movflags empty_moov+frag_keyframe+skip_trailer",
        "fragments",
    ),
    ("index.mp4", "-c:v mpeg4 -b:v 400k -g 25 -c:a aac -movflags frag_keyframe", "fragment-index"),
    ("dash.mp4", "-c:v mpeg4 -b:v 400k -g 25 -an -movflags dash+global_sidx", "fragment-index"),
    ("stream.ts", "-c:v mpeg2video -b:v 400k -c:a mp2", "program-clock"),
    ("cues.mkv", "-c:v mpeg4 -b:v 400k -g 25 -c:a aac", "cues"),
    ("live.mkv", "-c:v mpeg4 -b:v 400k -g 25 -c:a aac -live 1 -f matroska", "times-sampled"),
    ("movie.avi", "-c:v mpeg4 -b:v 400k -c:a libmp3lame", "container-duration"),
    ("movie.flv", "-c:v flv1 -b:v 400k -c:a libmp3lame -ar 44100", "times-sampled"),
    ("sound.mp3", "-vn -c:a libmp3lame -q:a 4", "frames-sampled"),
    ("sound.aac", "-vn -c:a aac -f adts", "frames-sampled"),
    ("sound.flac", "-vn -c:a flac -sample_fmt s16", "times-sampled"),
    ("sound.wav", "-vn -c:a pcm_s16le", "header"),
    ("sound.ogg", "-vn -c:a libopus -b:a 96k", "times-sampled"),
];

const SECONDS: u32 = 60;

fn make(path: &Path, options: &str) -> std::io::Result<Output> {
    let picture = format!("testsrc=size=320x180:rate=25:duration={SECONDS}");
    let sound = format!("aevalsrc=sin(440*t)*0.4+random(0)*0.01:s=48000:d={SECONDS}");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &sound]);
    command.args(options.split(' ')).arg(path).output()
}

/// Seconds that ffprobe finds.
fn duration(path: &Path) -> f64 {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0"])
        .arg(path)
        .output()
        .expect("ffprobe comes with ffmpeg");
    // A file without a duration of its own lasts as long as it was made.
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(f64::from(SECONDS))
}

#[test]
fn files_of_all_kinds_get_the_rate_that_size_and_duration_confirm() {
    let place = tempfile::tempdir().expect("a folder");
    for (name, options, source) in MADE {
        let path = place.path().join(name);
        match make(&path, options) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return skip::skipped("there is no ffmpeg"),
            made => {
                let made = made.expect("ffmpeg");
                assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
            }
        }
        let output = plan(&[&path]);
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = &said[0];
        assert_eq!(found["rate_source"], source, "{found}");
        let size = std::fs::metadata(&path).expect("it was made").len();
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let mean = size as f64 * 8.0 / duration(&path);
        let ratio = |member: &str| found[member].as_f64().expect("a number") / mean;
        assert!((0.95..=1.05).contains(&ratio("mean_bps")), "{name}: {} of {mean}: {found}", ratio("mean_bps"));
        // Four seconds sent ahead save a sixteenth; an average has a quarter added.
        assert!((0.9..=1.3).contains(&ratio("rate_bps")), "{name}: {} of {mean}: {found}", ratio("rate_bps"));
    }
}

/// Half a file plays for half as long; its rate is the same.
#[test]
fn a_file_that_was_cut_keeps_its_rate() {
    let place = tempfile::tempdir().expect("a folder");
    // What an index promises of the rest is no less true, and without a movie's tables there is no rate.
    let indexed = ["tables.mp4", "tables.mov", "hint.mp4", "dash.mp4", "cues.mkv"];
    for (name, options, _) in MADE.into_iter().filter(|(name, ..)| !indexed.contains(name)) {
        let path = place.path().join(name);
        match make(&path, options) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return skip::skipped("there is no ffmpeg"),
            made => assert!(made.expect("ffmpeg").status.success(), "{name}"),
        }
        let rate = || {
            let said: Value = serde_json::from_slice(&plan(&[&path]).stdout).expect("JSON");
            said[0]["rate_bps"].as_f64().unwrap_or_else(|| panic!("{said}"))
        };
        let whole = rate();
        let bytes = std::fs::read(&path).expect("it was made");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
        let cut = rate();
        // The rate of a whole AVI is its mean and a quarter; the places of a cut one are looked at.
        let least = if name == "movie.avi" { 0.9 / 1.25 } else { 0.8 };
        assert!((least..=1.25).contains(&(cut / whole)), "{name}: {cut}, whole {whole}");
    }
}

#[test]
fn files_without_a_rate_give_the_reason_each() {
    let place = tempfile::tempdir().expect("a folder");
    let [text, missing] = ["notes.txt", "missing.mp4"].map(|name| place.path().join(name));
    std::fs::write(&text, "no film").expect("written");
    let output = plan(&[&text, &missing]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(said[0]["error"].as_str().is_some_and(|why| why.contains("none of the containers")), "{said}");
    assert!(said[1]["error"].as_str().is_some_and(|why| why.contains("cannot be opened")), "{said}");
}
