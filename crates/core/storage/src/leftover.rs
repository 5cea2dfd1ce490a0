//! Hidden names of unfinished uploads, and the treatment of leftovers of a crash at the next start.
//!
//! Promise: a leftover is removed, or, if its upload was to be kept, gets the upload's name or a numbered one; it replaces no content.

/// Prefix of the hidden names of all runs. Listings omit such names, and paths may not contain them.
pub const PREFIX: &str = ".isocast-upload-";

/// Follows the prefix in the hidden names of upload parts; no run has this name.
const PART: &str = "part-";

/// Follows the prefix in the hidden names of items that their owner finds again; no run has this name.
const KEPT: &str = "kept-";

/// Greatest number behind a name: names with three digits sort in the order of their numbers.
const NUMBER_MAX: usize = 999;
/// Most names tried for an upload that must replace nothing: its own, and ten times all numbers.
const NAMES_TRIED: usize = 1 + 10 * (NUMBER_MAX - 1);

/// A leftover of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover<'a> {
    /// Remove it: it was never visible.
    Discard,
    /// Give its bytes this name.
    Keep(&'a str),
    /// Leave it: an upload may continue it.
    Part,
}

/// The hidden name `number` of the run `run` (process and start time, neither with a `-`). It contains the upload's own name if
/// the upload is to be kept after a crash.
#[must_use]
pub fn hidden_name(run: &str, number: u64, own: Option<&str>) -> String {
    let own = own.map(|own| format!("-{own}")).unwrap_or_default();
    format!("{PREFIX}{run}-{number}{own}")
}

/// The hidden name, in any run, of the received bytes of an upload that may be continued: of the content `own` in the version
/// `version`.
#[must_use]
pub fn part_name(own: &str, version: u64) -> String {
    format!("{PREFIX}{PART}{version:016x}-{own}")
}

/// The hidden name, in any run, of an item that its owner finds again and removes.
#[must_use]
pub fn kept_name(own: &str) -> String {
    format!("{PREFIX}{KEPT}{own}")
}

/// The leftover with this `name`; `None` if the name is none of an upload, or belongs to the present `run`.
#[must_use]
pub fn leftover<'a>(name: &'a str, run: &str) -> Option<Leftover<'a>> {
    let rest = name.strip_prefix(PREFIX)?;
    let is_of_run = rest.strip_prefix(run).is_some_and(|rest| rest.starts_with('-'));
    if is_of_run || rest.starts_with(KEPT) {
        return None;
    }
    if rest.starts_with(PART) {
        return Some(Leftover::Part);
    }
    // Process, time, number, name.
    let own = rest.splitn(4, '-').nth(3).filter(|own| !own.is_empty());
    Some(own.map_or(Leftover::Discard, Leftover::Keep))
}

/// The names to try for an upload that must replace nothing: `talk.ts`, `talk~002.ts`, `talk~003.ts` and so on;
/// `talk~999~002.ts` follows `talk~999.ts`. They sort in this order, and before `tall.ts`.
pub fn numbered_names(own: &str) -> impl Iterator<Item = String> {
    (0..NAMES_TRIED).map(move |nth| {
        let Some(others) = nth.checked_sub(1) else { return own.to_owned() };
        let full = format!("~{NUMBER_MAX}").repeat(others / (NUMBER_MAX - 1));
        let number = others % (NUMBER_MAX - 1) + 2;
        match own.rsplit_once('.') {
            Some((stem, ending)) if !stem.is_empty() => format!("{stem}{full}~{number:03}.{ending}"),
            _ => format!("{own}{full}~{number:03}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_earlier_runs_are_leftovers() {
        let own = hidden_name("7-a0", 3, None);
        assert_eq!(own, ".isocast-upload-7-a0-3");
        assert_eq!(leftover(&own, "7-a0"), None);
        assert_eq!(leftover(&own, "7-a"), Some(Leftover::Discard));
        assert_eq!(leftover(&hidden_name("7-a0", 4, Some("a - b.ts")), "8-b0"), Some(Leftover::Keep("a - b.ts")));
        assert_eq!(leftover(&part_name("a - b.ts", 7), "8-b0"), Some(Leftover::Part));
        assert_eq!(leftover(&kept_name("a-1"), "8-b0"), None);
        assert_eq!(
            leftover(&hidden_name("7-a0", 4, Some(&kept_name("a-1"))), "8-b0"),
            Some(Leftover::Keep(&kept_name("a-1")))
        );
        assert_eq!(leftover("isocast-upload-1", "8-b0"), None);
        assert_eq!(leftover(".isocast", "8-b0"), None);
    }

    #[test]
    fn names_beside_one_keep_its_ending_and_its_place_in_order() {
        let names = |own| numbered_names(own).take(2).collect::<Vec<_>>();
        assert_eq!(names("talk.ts"), ["talk.ts", "talk~002.ts"]);
        assert_eq!(names(".hidden"), [".hidden", ".hidden~002"]);
        let all: Vec<String> = numbered_names("10-00.ts").chain(numbered_names("10-01.ts")).collect();
        assert!(all.is_sorted() && all.len() == 2 * NAMES_TRIED);
        assert_eq!(all[998..1000], ["10-00~999.ts", "10-00~999~002.ts"]);
    }
}
