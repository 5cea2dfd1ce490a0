//! Patterns of names: `*` stands for any part of a name, `?` for one character.

use std::path::Path;

/// True if `name` is like `pattern`, or equal to it.
#[must_use]
pub fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Behind the last `*`, and how much of the name it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, of));
                at += 1;
            }
            Some(one) if *one == '?' || *one == name[of] => (at, of) = (at + 1, of + 1),
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    (at, of) = (after, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

/// True if `pattern` leaves out the item at `path` below the source: by its name or path; with a slash in front by its path alone, with
/// one behind only a folder.
pub(crate) fn leaves_out(pattern: &str, path: &Path, is_folder: bool) -> bool {
    let (pattern, of_folders) = pattern.strip_suffix('/').map_or((pattern, false), |pattern| (pattern, true));
    let whole = path.to_string_lossy();
    let name = || path.file_name().unwrap_or_default().to_string_lossy();
    (is_folder || !of_folders)
        && match pattern.strip_prefix('/') {
            Some(top) => is_like(top, &whole),
            None => is_like(pattern, &whole) || is_like(pattern, &name()),
        }
}

/// Refuses patterns that no name or path is like.
pub(crate) fn parse_pattern(text: &str) -> Result<String, String> {
    let path = text.strip_prefix('/').unwrap_or(text);
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut names = path.split('/');
    match names.any(|name| ["", ".", ".."].contains(&name)) {
        true => {
            Err("no path below SRC is like this: write names with one slash between two, as in `cache/*.tmp`"
                .to_owned())
        }
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_like_patterns() {
        for (pattern, name) in [
            ("kept", "kept"),
            ("ke*", "kept"),
            ("*", ""),
            ("*", "film.ts"),
            ("*.ts", "a.ts.ts"),
            ("k?pt", "kept"),
            ("a*b*c", "axbxbxc"),
            ("*", "映画"),
            ("?", "映"),
            ("[1]", "[1]"),
        ] {
            assert!(is_like(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("kept", "Kept"), ("kept ", "kept"), ("ke*", "ok"), ("?", ""), ("a*b", "abc"), ("", "a")]
        {
            assert!(!is_like(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn slashes_of_a_pattern_name_folders_and_the_top() {
        for (pattern, path, is_folder, expected) in [
            ("cache", "a/cache", false, true),
            ("cache/", "a/cache", true, true),
            ("cache/", "a/cache", false, false),
            ("/cache", "cache", false, true),
            ("/cache", "a/cache", true, false),
            ("/a/cache/", "a/cache", true, true),
            ("a/*", "a/cache", false, true),
        ] {
            assert_eq!(leaves_out(pattern, path.as_ref(), is_folder), expected, "{pattern} {path} {is_folder}");
        }
        for pattern in ["", "/", "//", "./cache", "a//b", "../a"] {
            assert!(parse_pattern(pattern).is_err(), "{pattern}");
        }
        assert_eq!(parse_pattern("/a/*.tmp/").as_deref(), Ok("/a/*.tmp/"));
    }
}
