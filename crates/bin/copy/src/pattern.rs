//! Patterns of names: `*` stands for any part of a name, `?` for one character.

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
}
