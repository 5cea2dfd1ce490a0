//! The process behind one network: guests, the Ethernet between them, and its control connections.

use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::guests::{Guests, INIT};
use super::hub::{Cables, Hub};
use super::network_folder::{self, NetworkFolder};
use crate::say;
use crate::stop::Stop;

/// Commands of `ctl`, for help and error messages.
pub(super) const COMMANDS: &str = "cut NODE, heal NODE, loss PERCENT, delay SPAN, stat";
const INIT_TEXT: &str = include_str!("guest-init.sh");
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(100);

/// State and counters of a network's cables, and its nodes' processor time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stat {
    #[serde(flatten)]
    pub(super) cables: Cables,
    /// The host's processor time of each node, nanoseconds.
    pub(super) processor_ns: Vec<u64>,
}

/// Runs a network until a signal or the order `end`. Prints `ready` on standard output when its nodes have their links.
pub(super) fn run(name: &str, nodes: usize, rate_bps: Option<u64>, cables: Cables) -> anyhow::Result<()> {
    // It outlives the terminal it was started from. Fails only for a process that leads a group already: started by hand.
    let _led = rustix::process::setsid();
    let stop = Stop::on_signals()?;
    let home = NetworkFolder::of(name)?;
    let served = serve(&home, nodes, rate_bps, cables, &stop);
    // The guests have ended by now.
    home.remove().with_context(|| format!("removing {}", home.folder.display()))?;
    served
}

fn serve(home: &NetworkFolder, nodes: usize, rate_bps: Option<u64>, cables: Cables, stop: &Stop) -> anyhow::Result<()> {
    let init = home.folder.join(INIT);
    std::fs::write(&init, INIT_TEXT).context("writing the guests' first script")?;
    rustix::fs::chmod(&init, rustix::fs::Mode::RWXU).context("the guests' first script")?;
    let listener = UnixListener::bind(home.control()).context("the control socket")?;
    listener.set_nonblocking(true)?;
    let (guests, ports) = Guests::start(&home.folder, nodes, rate_bps)?;
    let guests = Arc::new(guests);
    let cables = Arc::new(Mutex::new(cables));
    let switched = Arc::clone(&cables);
    std::thread::Builder::new().name("ethernet".into()).spawn(move || {
        if let Err(error) = Hub::new(ports).run(&switched) {
            say(format_args!("the emulated Ethernet failed: {error}"));
        }
    })?;
    guests.wait_ready()?;
    let mut out = io::stdout();
    writeln!(out, "ready").and_then(|()| out.flush()).context("no process waits for `ready`")?;
    while !stop.is_set() {
        match listener.accept() {
            Ok((stream, _)) => {
                let (guests, cables, stop) = (Arc::clone(&guests), Arc::clone(&cables), stop.clone());
                std::thread::spawn(move || converse(&stream, &guests, &cables, &stop));
            }
            Err(_) => std::thread::sleep(STOP_CHECK_PERIOD),
        }
    }
    // Here, as other threads may still hold them while they wait for commands on the nodes.
    guests.stop();
    Ok(())
}

fn converse(mut stream: &UnixStream, guests: &Guests, cables: &Mutex<Cables>, stop: &Stop) {
    let answered =
        stream.set_nonblocking(false).and_then(|()| network_folder::line(stream)).map_err(anyhow::Error::from);
    let answer = answered.and_then(|line| obey(&line, stream, guests, cables, stop));
    // The caller may have gone.
    let _ = match answer {
        Ok(answer) => writeln!(stream, "{answer}"),
        Err(error) => writeln!(stream, "error: {error:#}"),
    };
}

fn obey(
    line: &str,
    stream: &UnixStream,
    guests: &Guests,
    cables: &Mutex<Cables>,
    stop: &Stop,
) -> anyhow::Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let change = |change: &dyn Fn(&mut Cables)| change(&mut cables.lock().unwrap_or_else(PoisonError::into_inner));
    let nodes = guests.count();
    let node = |text: &str| -> anyhow::Result<usize> {
        let number = text.parse().ok().filter(|number| (1..=nodes).contains(number));
        number.with_context(|| format!("`{}` is no node: they are 1 to {nodes}", text.escape_debug()))
    };
    match words.as_slice() {
        ["end"] => stop.set(),
        ["run", at, id] => return attend(node(at)?, id, stream, guests),
        ["stat"] => {
            let cables = cables.lock().unwrap_or_else(PoisonError::into_inner).clone();
            return Ok(serde_json::to_string(&Stat { cables, processor_ns: guests.processor_ns() })?);
        }
        ["cut", at] => {
            let at = node(at)?;
            change(&|cables| cables.cut.extend([at]));
        }
        ["heal", at] => {
            let at = node(at)?;
            change(&|cables| cables.cut.retain(|&node| node != at));
        }
        ["loss", percent] => {
            let share = loss(percent).map_err(|why| anyhow!(why))?;
            change(&|cables| cables.loss = share);
        }
        ["delay", span] => {
            let delay = if *span == "0" { units::Nanos::ZERO } else { units::parse_duration(span)? };
            change(&|cables| cables.delay_ns = delay.0);
        }
        _ => bail!("unknown command `{}`; there are: {COMMANDS}", line.escape_debug()),
    }
    Ok("ok".to_owned())
}

/// Waits for the end of a command on a node; ends it if the caller has gone.
fn attend(node: usize, id: &str, stream: &UnixStream, guests: &Guests) -> anyhow::Result<String> {
    let told = guests.run(node, id)?;
    stream.set_read_timeout(Some(Duration::from_millis(1)))?;
    loop {
        match told.recv_timeout(STOP_CHECK_PERIOD) {
            Ok(status) => return Ok(status.to_string()),
            Err(RecvTimeoutError::Disconnected) => bail!("node {node} has ended"),
            Err(RecvTimeoutError::Timeout) => {
                // An end, where nothing more can come.
                if matches!(io::Read::read(&mut &*stream, &mut [0_u8]), Ok(0)) {
                    guests.end(node, id);
                    bail!("the caller has gone");
                }
            }
        }
    }
}

/// A share of frames that is lost, written in percent.
pub(super) fn loss(percent: &str) -> Result<f64, String> {
    let share = percent.trim_end_matches('%').trim().parse().map(|percent: f64| percent / 100.0);
    share.ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
        format!("`{}` is no loss: percent of the frames, 0 to 100, for example 0.5", percent.escape_debug())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_share_of_all_frames() {
        assert_eq!(loss("50"), Ok(0.5));
        assert_eq!(loss("100%"), Ok(1.0));
        assert!(loss("101").is_err() && loss("-1").is_err() && loss("x").unwrap_err().contains("for example"));
    }
}
