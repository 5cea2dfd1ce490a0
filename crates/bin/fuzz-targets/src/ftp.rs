//! The parser of FTP commands: any bytes give commands or refusals, the same ones in whatever pieces the bytes arrive.

use ftp::command::{CommandError, CommandLines, FtpCommand};

fn commands(bytes: &[u8], piece: usize) -> Vec<Result<FtpCommand, CommandError>> {
    let (mut lines, mut found) = (CommandLines::default(), Vec::new());
    for mut part in bytes.chunks(piece) {
        while !part.is_empty() {
            let (taken, command) = lines.take(part);
            assert!(taken > 0 && taken <= part.len());
            part = &part[taken..];
            found.extend(command);
        }
    }
    found
}

/// Fuzz target: parses the bytes whole and in pieces.
pub fn target(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    let whole = commands(text, usize::MAX);
    assert_eq!(whole, commands(text, usize::from(*first) + 1));
    assert!(whole.len() <= text.iter().filter(|byte| **byte == b'\n').count());
}
