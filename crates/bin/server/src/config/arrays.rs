//! Arrays of tables in the configuration, and the names of their entries.

/// Arrays of tables, with the member that distinguishes the entries of each: `[[job]]` with the name `nightly` is the key `job.nightly`.
pub(crate) const ARRAYS: [(&str, &str); 4] =
    [("budget", "of"), ("job", "name"), ("quota", "folder"), ("webhook", "name")];

/// The member that distinguishes the entries of an array.
pub(crate) fn name_member(array: &str) -> Option<&'static str> {
    ARRAYS.iter().find(|(known, _)| *known == array).map(|(_, member)| *member)
}
