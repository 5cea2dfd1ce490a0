//! Archives by links, within budgets, and of contents that change meanwhile. Their bytes: `serve_zip` of the server.

use service::account_changes::{AccountChange, LinkWish};
use service::budgets::{BudgetKey, BudgetLimits};
use units::BitRate;

use crate::rights::{ADA, Closed, wish};
use crate::support::{Answer, Client, PlaneOrder, pattern};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn with_films() -> Closed {
    let closed = Closed::start();
    NAMES.iter().for_each(|name| closed.harness.store.put(&format!("films/all/{name}"), &pattern(1000)));
    closed
}

fn request(query: &str, fields: &str) -> String {
    format!("GET /api/v1/contents/zip?{query} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_is_one_use_of_its_link_and_reserves_nothing() {
    let closed = with_films();
    let link = LinkWish { uses: Some(2), rate: Some(BitRate(3_000_000)), ..wish("/films", "read") };
    let link = closed.change(AccountChange::AddLink(link));
    let get = |paths: &str| closed.harness.one(&request(&format!("{paths}&share={link}"), ""));
    let whole = |answer: &Answer| answer.status == 200 && answer.body.len() > NAMES.len() * 1000;
    assert!(whole(&get("path=films/all")));
    let named: Vec<String> = NAMES.iter().map(|name| format!("path=films/all/{name}")).collect();
    assert!(whole(&get(&named.join("&"))));
    assert_eq!(get("path=films/all").status, 403, "a third use");
    let orders = closed.harness.plane.orders();
    let started = orders.iter().filter(|order| matches!(order, PlaneOrder::Start { rate: None, .. }));
    assert_eq!(started.count(), 2 * NAMES.len());
    assert!(
        !orders.iter().any(|order| matches!(order, PlaneOrder::Start { rate: Some(_), .. } | PlaneOrder::Reserve(_)))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_of_a_folder_is_one_request_of_its_budget() {
    let closed = with_films();
    let limits = BudgetLimits { requests: Some(1), ..BudgetLimits::default() };
    closed.change(AccountChange::SetBudget { of: BudgetKey::Account("ada".into()), limits });
    let answer = closed.harness.one(&request("path=films/all", ADA));
    assert_eq!((answer.status, answer.length()), (200, answer.body.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_in_an_archive_once() {
    let closed = with_films();
    let status = |query| closed.harness.one(&request(query, ADA)).status;
    closed.harness.store.put("other/a.ts/x", b"");
    for query in ["path=films/a.ts&path=other/a.ts", "path=films/all&path=films/all", "path=/&path=films/a.ts"] {
        assert_eq!(status(query), if query.starts_with("path=/") { 200 } else { 400 }, "{query}");
    }
}

/// An archive of two contents, the second of which has other bytes when the first is sent.
async fn with_a_second(closed: &Closed, second: &[u8]) -> (Answer, std::io::Result<()>) {
    closed.harness.plane.close_gate();
    let mut client: Client = closed.harness.connect();
    client.send(request("path=films/all/a&path=films/all/b", ADA));
    closed.harness.store.wait_opened("films/all/a").await;
    closed.harness.store.put("films/all/b", second);
    closed.harness.plane.open_gate();
    let mut answer = client.head();
    let came = client.try_body(&mut answer);
    (answer, came)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_that_grew_is_in_an_archive_up_to_its_first_length() {
    let closed = with_films();
    let (answer, came) = with_a_second(&closed, &pattern(2000)).await;
    came.expect("whole");
    let is_there = |bytes: &[u8]| answer.body.windows(bytes.len()).filter(|window| *window == bytes).count();
    assert_eq!((is_there(&pattern(1000)), is_there(&pattern(1001))), (2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_that_was_replaced_breaks_an_archive_off_and_is_named() {
    for second in [&pattern(999)[..], &[7; 1000]] {
        let closed = with_films();
        let (answer, came) = with_a_second(&closed, second).await;
        assert_eq!((answer.status, came.is_err()), (200, true));
        closed.harness.events.wait_until(|text| {
            text.lines().any(|line| line.contains("archive_broken") && line.contains("films/all/b"))
        });
    }
}
