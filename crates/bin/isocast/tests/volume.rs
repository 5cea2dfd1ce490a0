//! `isocast volume`: the real program on files that stand for disks.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const DISK_BYTES: u64 = 24 << 20;

/// A folder in memory with disks in it.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir_in("/dev/shm").expect("/dev/shm is a tmpfs on Linux") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn disk(&self, name: &str) -> String {
        let path = self.path(name);
        File::create(&path).and_then(|file| file.set_len(DISK_BYTES)).expect("there is room");
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    /// A folder with three files, as `source`.
    fn files(&self) -> PathBuf {
        let source = self.path("films");
        fs::create_dir_all(source.join("old")).expect("there is room");
        for (name, length) in [("a.mp4", 3_500_000_usize), ("old/b.mp4", 70_000), ("empty", 0)] {
            let bytes: Vec<u8> = (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0]).collect();
            fs::write(source.join(name), bytes).expect("there is room");
        }
        source
    }
}

fn volume(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isocast")).arg("volume").args(arguments).output().expect("the program was built")
}

fn done(arguments: &[&str]) -> String {
    let output = volume(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts exit code 1; returns the error output.
fn refused(arguments: &[&str]) -> String {
    let output = volume(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(arguments: &[&str]) -> (Value, bool) {
    let output = volume(arguments);
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (value, output.status.success())
}

fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).expect("it is there") == fs::read(other).expect("it is there")
}

#[test]
fn a_mirror_exports_its_contents_and_mends_damage() {
    let bench = Bench::new();
    let (one, two, source) = (bench.disk("one"), bench.disk("two"), bench.files());
    let both = format!("{two},{one}");
    done(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes", &one, &two]);
    done(&["import", &both, source.to_str().expect("UTF-8")]);
    let (status, sound) = json(&["status", "--json", &both]);
    assert!(sound && status["contents"] == 3 && status["layout"] == "mirror", "{status:#}");
    let (listed, _) = json(&["ls", "--json", &both, "films"]);
    assert_eq!(listed[0]["bytes"], 3_500_000, "{listed:#}");

    // Everything behind the journal of one disk is overwritten here and there.
    let damaged = File::options().write(true).open(&one).expect("it is there");
    for position in (4 << 20..DISK_BYTES - (2 << 20)).step_by(700_000) {
        damaged.write_all_at(b"damage", position).expect("there is room");
    }
    assert!(!json(&["check", "--json", &both]).1 || !json(&["scrub", "--no-repair", "--json", &both]).1);
    let (found, sound) = json(&["scrub", "--json", &both]);
    let rows = found["damage"].as_array().expect("a list");
    assert!(!sound && !rows.is_empty() && rows.iter().all(|row| row["repaired"] == true), "{found:#}");
    assert!(json(&["scrub", "--json", &both]).1, "what was repaired is sound");

    let out = bench.path("out");
    fs::create_dir(&out).expect("there is room");
    // With one disk alone, too.
    done(&["export", "--to", out.to_str().expect("UTF-8"), &one]);
    for name in ["a.mp4", "old/b.mp4", "empty"] {
        assert!(same(&source.join(name), &out.join("films").join(name)), "{name}");
    }
}

#[test]
fn a_volume_grows_by_a_disk_and_gives_one_back() {
    for layout in ["span", "stripe", "mirror"] {
        let bench = Bench::new();
        let source = bench.files();
        let [one, two, three] = ["one", "two", "three"].map(|name| bench.disk(name));
        let (both, all) = (format!("{one},{two}"), format!("{three},{one},{two}"));
        done(&["create", "--name", "films", "--layout", layout, "--unit", "1MiB", "--yes", &one, &two]);
        done(&["import", &both, source.to_str().expect("UTF-8")]);
        let free = |named: &str| json(&["status", "--json", named]).0["free_bytes"].as_u64().expect("a number");
        let before = free(&both);
        assert!(refused(&["add", "--new", &three, &both]).contains("--yes"));
        let (added, _) = json(&["add", "--new", &three, "--yes", "--json", &both]);
        assert_eq!(added["disk"], 2, "{added:#}");
        assert!(free(&all) > before + before / 3, "{layout}: {before} and then {}", free(&all));
        done(&["add", "--new", &three, "--yes", &both]);
        assert!(
            refused(&["import", &both, source.to_str().expect("UTF-8")]).contains("missing"),
            "it has to be named now"
        );
        let more = bench.path("more");
        fs::create_dir(&more).expect("there is room");
        fs::copy(source.join("a.mp4"), more.join("c.mp4")).expect("there is room");
        done(&["import", &all, more.to_str().expect("UTF-8")]);

        // The first has the catalogue, and contents of before.
        assert!(refused(&["remove", "--old", &one, &all]).contains("--yes"));
        let (removed, _) = json(&["remove", "--old", &one, "--yes", "--json", &all]);
        assert!(layout == "span" || removed["moved_bytes"].as_u64() > Some(1_000_000), "{layout}: {removed:#}");
        let rest = format!("{two},{three}");
        for disk in [&two, &three].into_iter().filter(|_| layout == "mirror") {
            assert_eq!(json(&["status", "--json", disk]).0["contents"], 4, "{disk} has the catalogue");
        }
        assert!(json(&["scrub", "--json", &rest]).1, "{layout}");
        for disks in [&rest, &all] {
            let (status, is_sound) = json(&["status", "--json", disks]);
            assert!(is_sound && status["disks"][0]["state"] == "left", "nothing is wrong with the rest: {status:#}");
        }
        let out = bench.path("out");
        fs::create_dir(&out).expect("there is room");
        done(&["export", "--to", out.to_str().expect("UTF-8"), &rest]);
        for name in ["films/a.mp4", "films/old/b.mp4", "films/empty", "more/c.mp4"] {
            let original = if name == "more/c.mp4" { more.join("c.mp4") } else { bench.path(name) };
            assert!(same(&original, &out.join(name)), "{layout}: {name}");
        }
        if layout == "mirror" {
            assert!(refused(&["remove", "--old", &two, "--yes", &rest]).contains("too few"), "a mirror needs two");
        }
        // It may come back, under its old number.
        assert!(refused(&["add", "--new", &one, "--yes", &rest]).contains("an Isocast volume"));
        let (added, _) = json(&["add", "--new", &one, "--yes", "--force", "--json", &rest]);
        assert_eq!(added["disk"], 0, "{added:#}");
        assert!(json(&["scrub", "--json", &all]).1, "{layout}");
    }
}

#[test]
fn a_mirror_of_disks_that_differ_names_the_room_that_stays_unused() {
    let bench = Bench::new();
    let [one, two] = ["one", "two"].map(|name| bench.disk(name));
    let three = bench.disk("three");
    File::options().write(true).open(&three).and_then(|file| file.set_len(96 << 20)).expect("there is room");
    let create = |disks: &[&str]| {
        let output =
            volume(&[&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], disks].concat());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(create(&[&one, &two]), "");
    let said = create(&["--force", &one, &three]);
    assert!(said.contains("MiB of the disks stay unused"), "{said}");
}

#[test]
fn a_lost_catalogue_is_reported_and_rebuilt() {
    let bench = Bench::new();
    let (disk, source) = (bench.disk("one"), bench.files());
    done(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes", &disk]);
    done(&["import", &disk, source.to_str().expect("UTF-8")]);
    let file = File::options().write(true).open(&disk).expect("it is there");
    file.write_all_at(&vec![0; 2 << 20], 1 << 20).expect("there is room");
    assert!(refused(&["status", &disk]).contains("rebuild-catalogue"));
    let described = volume(&["rebuild-catalogue", &disk]);
    assert!(!described.status.success() && String::from_utf8_lossy(&described.stdout).contains("found 2 contents"));
    assert!(refused(&["status", &disk]).contains("rebuild-catalogue"), "without --yes nothing is written");
    done(&["rebuild-catalogue", "--yes", &disk]);
    let (found, sound) = json(&["scrub", "--json", &disk]);
    assert!(sound && found["contents"] == 2, "{found:#}");
}

#[test]
fn a_disk_that_holds_something_is_not_overwritten() {
    let bench = Bench::new();
    let (one, two) = (bench.disk("one"), bench.disk("two"));
    let create = |disks: &[&str], more: &[&str]| -> Vec<String> {
        let fixed = ["create", "--name", "v", "--layout", "span", "--unit", "1MiB"];
        fixed.iter().chain(more).chain(disks).map(|word| (*word).to_owned()).collect()
    };
    let refused = |words: Vec<String>| refused(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refused(create(&[&one], &[])).contains("--yes"));
    let file = File::options().write(true).open(&one).expect("it is there");
    file.write_all_at(&[0x53, 0xef], 0x438).expect("there is room");
    assert!(refused(create(&[&one], &["--yes"])).contains("ext4"));
    file.write_all_at(&[0, 0], 0x438).expect("there is room");
    assert!(refused(create(&[&one, &one], &["--yes"])).contains("twice"));
    done(&["create", "--name", "v", "--layout", "stripe", "--unit", "1MiB", "--yes", &one, &two]);
    assert!(refused(create(&[&one], &["--yes"])).contains("an Isocast volume"));
    assert!(volume(&["status", &one]).status.code() == Some(1), "a disk is missing");
    let source = bench.files();
    assert!(self::refused(&["import", &one, source.to_str().expect("UTF-8")]).contains("missing"));
    File::options().write(true).open(&two).and_then(|file| file.set_len(8 << 20)).expect("it can be cut");
    let cut = self::refused(&["status", &format!("{one},{two}")]);
    assert!(cut.contains("truncated") || cut.contains("damaged"), "{cut}");
    fs::write(bench.path("small"), vec![0; 1 << 20]).expect("there is room");
    let small = bench.path("small");
    assert!(refused(create(&[small.to_str().expect("UTF-8")], &["--yes"])).contains("too small"));
}

#[test]
fn a_full_volume_says_so_before_anything_is_written() {
    let bench = Bench::new();
    let disk = bench.disk("one");
    done(&["create", "--name", "v", "--layout", "span", "--unit", "1MiB", "--yes", &disk]);
    let large = bench.path("large");
    File::create(&large).and_then(|file| file.set_len(DISK_BYTES)).expect("there is room");
    assert!(refused(&["import", &disk, large.to_str().expect("UTF-8")]).contains("has no room"));
    let (status, _) = json(&["status", "--json", &disk]);
    assert_eq!(status["contents"], 0);
}

#[test]
fn an_import_without_room_names_a_unit_that_fits_and_keeps_the_imported_files() {
    let bench = Bench::new();
    let (disk, source) = (bench.disk("one"), bench.path("small"));
    done(&["create", "--name", "v", "--layout", "span", "--unit", "2MiB", "--yes", &disk]);
    let units = json(&["status", "--json", &disk]).0["disks"][0]["units"].as_u64().expect("a number");
    fs::create_dir(&source).expect("there is room");
    (0..units + 10).try_for_each(|n| fs::write(source.join(n.to_string()), [7; 5_000])).expect("there is room");
    fs::write(source.join(OsStr::from_bytes(b"caf\xe9")), [7; 5_000]).expect("there is room");
    std::os::unix::fs::symlink("/", source.join("link")).expect("there is room");
    assert!(Command::new("mkfifo").arg(source.join("pipe")).status().is_ok_and(|made| made.success()));
    let imported = volume(&["import", "--json", &disk, source.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&imported.stderr).into_owned();
    assert_eq!(imported.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("take {} units of 2.0 MiB", units + 10)), "{said}");
    assert!(said.contains("a volume with units of 1.0 MiB"), "{said}");
    assert!(said.contains("11 not imported") && said.contains("not UTF-8"), "{said}");
    let result: Value = serde_json::from_slice(&imported.stdout).expect("JSON");
    assert_eq!(
        result,
        serde_json::json!({ "contents": units, "bytes": units * 5_000, "passed_over": 2, "failed": 11 })
    );
    let (status, sound) = json(&["status", "--json", &disk]);
    assert!(sound && status["contents"] == units, "{status:#}");
}

#[test]
fn a_mirror_keeps_the_files_of_an_import_in_which_a_disk_fails() {
    let bench = Bench::new();
    let (one, two, three, source) = (bench.disk("one"), bench.disk("two"), bench.disk("three"), bench.path("in"));
    File::options().write(true).open(&three).and_then(|disk| disk.set_len(4 * DISK_BYTES)).expect("there is room");
    done(&["create", "--name", "v", "--layout", "mirror", "--unit", "1MiB", "--yes", &one, &two, &three]);
    fs::create_dir(&source).expect("there is room");
    (0..20).try_for_each(|n| fs::write(source.join(n.to_string()), vec![n; 900_000])).expect("there is room");
    // The file of the large disk takes no write behind the end of the others, which a disk that fails there does not either.
    let mut import = Command::new("sh");
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" volume import \"$1\" \"$2\"", DISK_BYTES / 512);
    let all = format!("{one},{two},{three}");
    import.args(["-c", &limited, env!("CARGO_BIN_EXE_isocast"), &all]).arg(&source);
    let imported = import.output().expect("there is a shell");
    let said = String::from_utf8_lossy(&imported.stderr).into_owned();
    assert_eq!(imported.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("the volume is without {three} (")), "{said}");
    assert!(String::from_utf8_lossy(&imported.stdout).contains("20 contents"), "{said}");
    let (status, _) = json(&["status", "--json", &all]);
    assert_eq!((&status["contents"], &status["disks"][2]["state"]), (&20.into(), &"out".into()), "{status:#}");
    let out = bench.path("out");
    done(&["export", "--to", out.to_str().expect("UTF-8"), &format!("{one},{two}")]);
    assert!((0..20).all(|n| same(&source.join(n.to_string()), &out.join("in").join(n.to_string()))));
}

/// The room of a replaced content is free for the next file; of two files with one name the later one is the content.
#[test]
fn an_import_replaces_contents_in_a_volume_with_room_for_one_more() {
    let bench = Bench::new();
    let (disk, one, two) = (bench.disk("one"), bench.path("one-folder"), bench.path("two-folder"));
    done(&["create", "--name", "v", "--layout", "span", "--unit", "1MiB", "--yes", &disk]);
    let free = json(&["status", "--json", &disk]).0["free_bytes"].as_u64().expect("a number");
    let length = usize::try_from(free / 10 * 3).expect("64 bits");
    for (folder, names, byte) in [(&one, &["a", "b"][..], 1), (&two, &["b"], 2)] {
        fs::create_dir(folder).expect("there is room");
        names.iter().try_for_each(|name| fs::write(folder.join(name), vec![byte; length])).expect("there is room");
    }
    let files = [one.join("a"), one.join("b"), two.join("b")].map(|file| file.to_str().expect("UTF-8").to_owned());
    let import = ["import", &disk, &files[0], &files[1], &files[2]];
    (0..3).for_each(|_| drop(done(&import)));
    let out = bench.path("out");
    done(&["export", "--to", out.to_str().expect("UTF-8"), &disk]);
    assert!(same(&one.join("a"), &out.join("a")) && same(&two.join("b"), &out.join("b")));
}

#[test]
fn one_missing_name_keeps_no_other_from_going_in_or_out_with_its_time() {
    let bench = Bench::new();
    let (disk, source, out) = (bench.disk("one"), bench.path("in"), bench.path("out"));
    let small = volume(&["create", "--name", "v", "--layout", "span", "--unit", "64KiB", "--yes", &disk]);
    assert!(String::from_utf8_lossy(&small.stderr).contains("no server serves it"), "{small:?}");
    let settings = bench.path("isocast.toml");
    fs::write(&settings, format!("volumes = [{disk:?}]\nstate = {:?}\n", bench.path("state"))).expect("there is room");
    let mut check = Command::new(crate::common::program());
    let checked = check.args(["config", "check"]).arg(&settings).output().expect("the program runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("volumes: ") && said.contains("units have 65536 bytes; a server needs"), "{said}");
    fs::create_dir_all(source.join("empty")).expect("there is room");
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_500_000_000, 123);
    let file = File::create(source.join("a")).expect("there is room");
    file.set_modified(time).expect("it is ours");
    let said = refused(&["import", &disk, "/nowhere/at/all", source.to_str().expect("UTF-8")]);
    assert!(said.contains("1 not imported: cannot read /nowhere/at/all"), "{said}");
    assert!(json(&["ls", "--json", &disk, "in"]).0.to_string().contains("empty"));
    let said = refused(&["export", "--to", out.to_str().expect("UTF-8"), &disk, "nope", "in/a"]);
    assert!(said.contains("1 not exported whole: `nope`"), "{said}");
    assert_eq!(fs::metadata(out.join("in/a")).and_then(|of| of.modified()).expect("dated"), time);
    assert!(!out.join("in/empty").exists(), "it was not asked for");
    done(&["export", "--to", out.to_str().expect("UTF-8"), &disk]);
    assert!(out.join("in/empty").is_dir());
}

#[test]
fn a_replaced_disk_of_a_mirror_gets_second_copies() {
    let bench = Bench::new();
    let (one, two, new, source) = (bench.disk("one"), bench.disk("two"), bench.disk("new"), bench.files());
    let both = format!("{one},{two}");
    done(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes", &one, &two]);
    done(&["import", &both, source.to_str().expect("UTF-8")]);
    let replace = |more: &[&str], stays: &str| {
        let arguments = [&["replace", "--old", &one, "--new", &new][..], more, &[stays]].concat();
        arguments.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let words = |arguments: &[String]| refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    // Nothing is done unasked, nor to a disk that holds something, is too small, or is all there is.
    assert!(words(&replace(&[], &both)).contains("say --yes"));
    assert!(words(&replace(&["--yes"], &one)).contains("name the disks of the volume that stay"));
    let small = bench.path("small");
    File::create(&small).and_then(|file| file.set_len(DISK_BYTES / 2)).expect("there is room");
    let small = small.to_str().expect("UTF-8");
    assert!(refused(&["replace", "--old", &one, "--new", small, "--yes", &both]).contains("choose a larger one"));
    assert!(refused(&["replace", "--old", &one, "--new", &two, "--yes", &one]).contains("name the disks"));
    // The old one is gone altogether.
    fs::remove_file(&one).expect("it is there");
    let (filled, sound) = {
        let arguments = replace(&["--yes", "--json"], &both);
        json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(sound && filled["written_parts"] == 5 && filled["found_parts"] == 0, "{filled:#}");
    let both = format!("{two},{new}");
    let (status, sound) = json(&["status", "--json", &both]);
    assert!(sound && status["contents"] == 3, "{status:#}");
    let (scrubbed, sound) = json(&["scrub", "--json", &both]);
    assert!(sound, "{scrubbed:#}");
    // Its other disk may fail now.
    let back = bench.path("back");
    fs::create_dir(&back).expect("there is room");
    fs::remove_file(&two).expect("it is there");
    done(&["export", "--to", back.to_str().expect("UTF-8"), &new]);
    assert!(same(&source.join("a.mp4"), &back.join("films/a.mp4")));
    let third = bench.disk("third");
    let replaced = volume(&["replace", "--old", &two, "--new", &third, "--yes", &new]);
    let said = String::from_utf8_lossy(&replaced.stderr);
    assert!(replaced.status.success() && said.contains(&format!("volumes = [\"{new},{third}\"]")), "{said}");
    assert!(json(&["scrub", "--json", &format!("{new},{third}")]).1);
    // A second `replace`, as after an interruption, is refused: only a disk that was put in and not filled counts as broken off.
    assert!(refused(&["replace", "--old", &two, "--new", &third, "--yes", &new]).contains("an Isocast volume"));
}

#[test]
fn a_disk_of_a_stripe_has_no_copies_to_be_replaced_from() {
    let bench = Bench::new();
    let (one, two, new) = (bench.disk("one"), bench.disk("two"), bench.disk("new"));
    done(&["create", "--name", "films", "--layout", "stripe", "--unit", "1MiB", "--yes", &one, &two]);
    let said = refused(&["replace", "--old", &one, "--new", &new, "--yes", &two]);
    assert!(said.contains("one copy") || said.contains("catalogue"), "{said}");
}

#[test]
fn reading_commands_work_without_an_unusable_disk() {
    let bench = Bench::new();
    let (one, two, source) = (bench.disk("one"), bench.disk("two"), bench.files());
    let both = format!("{one},{two}");
    done(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes", &one, &two]);
    done(&["import", &both, source.to_str().expect("UTF-8")]);
    let harms: [(&str, &dyn Fn()); 3] = [
        ("no Isocast volume", &|| fs::write(&one, vec![0; 24 << 20]).expect("there is room")),
        ("truncated", &|| {
            fs::copy(&two, &one).expect("there is room");
            File::options().write(true).open(&one).and_then(|file| file.set_len(20 << 20)).expect("it can be cut");
        }),
        ("No such file", &|| fs::remove_file(&one).expect("it is there")),
    ];
    for (why, harm) in harms {
        harm();
        let output = volume(&["status", "--json", &both]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("is left out") && said.contains(why), "{why}: {said}");
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(status["contents"] == 3 && status["disks"][0]["state"] == "missing", "{status:#}");
        let (found, sound) = json(&["check", "--json", &both]);
        assert!(!sound && found["lost"].as_array().is_some_and(Vec::is_empty), "{found:#}");
        let out = tempfile::tempdir_in(bench.folder.path()).expect("there is room");
        done(&["export", "--to", out.path().to_str().expect("UTF-8"), &both]);
        assert!(same(&source.join("a.mp4"), &out.path().join("films/a.mp4")));
        assert!(refused(&["import", &both, source.to_str().expect("UTF-8")]).contains(why), "who writes needs it");
    }
}

#[test]
fn an_export_leaves_out_contents_without_a_right_copy() {
    let bench = Bench::new();
    let (disk, source) = (bench.disk("one"), bench.files());
    done(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes", &disk]);
    done(&["import", &disk, source.to_str().expect("UTF-8")]);
    let (listed, _) = json(&["check", "--json", &disk]);
    assert_eq!(listed["sound"], true);
    // Every unit begins with payload: those of the larger content go, one after the other, until one is damaged.
    let file = File::options().write(true).open(&disk).expect("it is there");
    let damaged = |position| {
        file.write_all_at(&[7; 4096], position).expect("there is room");
        json(&["scrub", "--no-repair", "--json", &disk]).0["lost"] == serde_json::json!(["films/a.mp4"])
    };
    assert!((3 << 20..DISK_BYTES - (2 << 20)).step_by(1 << 20).any(damaged), "one of them is of the larger content");
    let out = bench.path("out");
    fs::create_dir(&out).expect("there is room");
    let said = refused(&["export", "--to", out.to_str().expect("UTF-8"), &disk]);
    assert!(
        said.contains("`films/a.mp4`: bytes") && said.contains("1 not exported whole: `films/a.mp4`: damaged"),
        "{said}"
    );
    assert!(same(&source.join("old/b.mp4"), &out.join("films/old/b.mp4")));
    // On request the right bytes behind the damage come as well.
    let said = refused(&["export", "--keep-damaged", "--to", out.to_str().expect("UTF-8"), &disk]);
    assert!(said.contains("are damaged in every copy: zeros stand there"), "{said}");
    let (whole, kept) = (fs::read(source.join("a.mp4")), fs::read(out.join("films/a.mp4")));
    let (whole, kept) = (whole.expect("it is there"), kept.expect("it is there"));
    let blocks = whole.chunks(64 << 10).zip(kept.chunks(64 << 10));
    let wrong: Vec<&[u8]> = blocks.filter(|(whole, kept)| whole != kept).map(|(_, kept)| kept).collect();
    assert!(whole.len() == kept.len() && wrong.len() == 1, "{} blocks differ", wrong.len());
    assert!(wrong[0].iter().all(|byte| *byte == 0));
}

#[test]
fn a_folder_has_a_layout_of_its_own() {
    let bench = Bench::new();
    let (one, two, source) = (bench.disk("one"), bench.disk("two"), bench.files());
    let both = format!("{one},{two}");
    let create = ["create", "--name", "v", "--layout", "stripe", "--unit", "1MiB", "--yes", "--folder", "films=mirror"];
    done(&[&create[..], &[&one, &two]].concat());
    let (shown, _) = json(&["layout", "--json", &both]);
    assert_eq!(shown, serde_json::json!({ "layout": "stripe", "folders": { "films": "mirror" } }));
    done(&["import", &both, source.to_str().expect("UTF-8")]);
    done(&["import", &both, "--to", "once", source.join("a.mp4").to_str().expect("UTF-8")]);
    done(&["layout", &both, "films=volume", "/other/=span"]);
    assert!(done(&["status", &both]).contains("folder    other (span)"));
    assert!(refused(&["layout", &both, "a/../b=span"]).contains("a/../b"));
    // Contents written with two copies still have them.
    fs::remove_file(&two).expect("it is there");
    let out = bench.path("out");
    fs::create_dir(&out).expect("there is room");
    let said = refused(&["export", "--to", out.to_str().expect("UTF-8"), &one]);
    assert!(said.contains("`once/a.mp4`: in part or whole on disk 1, which is missing"), "{said}");
    assert!(!said.contains("`films/") && !out.join("once/a.mp4").exists(), "{said}");
    let said = refused(&["export", "--keep-damaged", "--to", out.to_str().expect("UTF-8"), &one, "once"]);
    assert!(said.contains("are on disk 1, which is missing, or damaged in every copy: zeros stand there"), "{said}");
    assert!(out.join("once/a.mp4").exists());
    assert!(same(&source.join("a.mp4"), &out.join("films/a.mp4")));
}
