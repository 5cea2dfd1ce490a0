//! Weights of the items that `Accept` and `Accept-Encoding` list (RFC 9110 §12.4.2).
//!
//! Promise: any text is read. Not here: the choice of an answer by them (`listing`, `page`, `follow`, `exchange`).

/// How much a media type is wanted, in thousandths: by the most specific range of `accept` that it is in (RFC 9110
/// §12.5.1). A weight that cannot be read counts as one.
#[must_use]
pub fn quality(accept: &str, media_type: &str) -> u32 {
    let (group, _) = media_type.split_once('/').unwrap_or_default();
    let mut best = (0, 0);
    for (range, weight) in weighted(accept) {
        let specific = match range.as_str() {
            "*/*" => 1,
            range if range.strip_suffix("/*") == Some(group) => 2,
            range if range == media_type => 3,
            _ => continue,
        };
        if specific > best.0 {
            best = (specific, weight);
        }
    }
    best.1
}

/// The items of a field in small letters, each with its weight in thousandths (RFC 9110 §12.4.2); without a weight it is 1000.
pub fn weighted(accept: &str) -> impl Iterator<Item = (String, u32)> {
    accept.split(',').map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        (name, weight.map_or(1000, thousandths))
    })
}

/// `0.125` is 125; more than three places do not exist (RFC 9110 §12.4.2).
fn thousandths(weight: &str) -> u32 {
    let (whole, places) = weight.split_once('.').unwrap_or((weight, ""));
    if whole != "0" {
        return 1000;
    }
    format!("{places:0<3.3}").parse().unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_field_weighs_json_against_html() {
        for (accept, json, html) in [
            ("application/json;q=0.9, text/html;q=0.1", 900, 100),
            ("text/html,application/xhtml+xml,*/*;q=0.8", 800, 1000),
            ("application/*;q=0.55, */*;q=0.1", 550, 100),
            ("APPLICATION/JSON ; Q=0", 0, 0),
            ("*/*", 1000, 1000),
            ("application/json;q=x, text/html;q=0.1239", 1000, 123),
        ] {
            assert_eq!((quality(accept, "application/json"), quality(accept, "text/html")), (json, html), "{accept}");
        }
    }
}
