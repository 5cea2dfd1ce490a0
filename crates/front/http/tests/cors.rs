//! Cross-origin reads (CORS): pages of the origins that are named.

use crate::support::Harness;
use http::config::HttpConfig;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_named_origins_may_read() {
    let config = HttpConfig { cors_origins: vec!["https://player.example".to_owned()], ..HttpConfig::default() };
    let harness = Harness::start(config);
    harness.store.put("film.mp4", b"12345");
    let ask = |request: &str, origin: &str| {
        harness.one(&format!("{request} HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n"))
    };
    let allowed = |origin: &str| {
        let answers =
            ["/media/film.mp4?rate=max", "/media/", "/media/none"].map(|target| ask(&format!("GET {target}"), origin));
        answers.map(|answer| answer.field("access-control-allow-origin").map(str::to_owned))
    };
    assert_eq!(allowed("https://player.example"), [const { "https://player.example" }; 3].map(|o| Some(o.to_owned())));
    assert_eq!(allowed("https://other.example"), [None, None, None]);
    let preflight = "OPTIONS /media/film.mp4 HTTP/1.1\r\nHost: localhost\r\nOrigin: https://player.example\r\n\
        Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: range,cmcd-session\r\n\r\n";
    let answer = harness.one(preflight);
    assert_eq!((answer.status, answer.field("access-control-allow-methods")), (204, Some("GET, HEAD")));
    assert!(answer.field("access-control-allow-headers").is_some_and(|names| names.contains("CMCD-Session")));
    let closed = Harness::start(HttpConfig::default());
    assert_eq!(closed.one(preflight).field("access-control-allow-origin"), None, "none unless it is asked for");
}
