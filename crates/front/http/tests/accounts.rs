//! Users, tokens, links and browsers' logins over the API.

use std::sync::Arc;

use accounts::Keeper;
use http::config::HttpConfig;
use service::account_changes::{AccountChange, AccountStore, Grantee};
use service::accounts::{Accounts, OpenRights};
use service::budgets::BudgetLimits;

use crate::rights::{ADA, BOB, Closed, GUESS, given, wish};
use crate::support::{Answer, Harness};

fn call(harness: &Harness, request: &str, fields: &str, body: &str) -> Answer {
    let typed = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    harness
        .one(&format!("{request} HTTP/1.1\r\nHost: localhost\r\n{fields}{typed}Content-Length: {length}\r\n\r\n{body}"))
}

fn status(harness: &Harness, request: &str, fields: &str, body: &str) -> u16 {
    call(harness, request, fields, body).status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_makes_changes_and_removes_users_and_groups() {
    let closed = Closed::start();
    let harness = &closed.harness;
    let ada = |request: &str, body: &str| status(harness, request, ADA, body);
    let new = r#"{"name":"cy","password":"cccccccc","rights":["read"]}"#;
    assert_eq!((ada("POST /api/v1/users", new), ada("POST /api/v1/users", new)), (204, 409));
    for wrong in [
        r#"{"name":"a:b","password":"cccccccc"}"#,
        r#"{"name":"dan","password":""}"#,
        r#"{"name":"dan","password":"ccccccc"}"#,
        r#"{"name":"dan","password":"cccccccc","rights":["all"]}"#,
        r#"{"name":"dan","password":"cccccccc","admin":true}"#,
        r#"{"name":"dan""#,
        "[]",
    ] {
        assert_eq!(ada("POST /api/v1/users", wrong), 400, "{wrong}");
    }
    assert_eq!(ada("POST /api/v1/users", &" ".repeat(70_000)), 413);
    let cy = "Authorization: Basic Y3k6Y2NjY2NjY2M=\r\n";
    assert_eq!(status(harness, "GET /media/other/b.ts", cy, ""), 200);
    assert_eq!(status(harness, "DELETE /media/other/b.ts", cy, ""), 403);
    assert_eq!(ada("PUT /api/v1/groups/cut/members/cy", ""), 204);
    let films = r#"{"folder":"/films","rights":["write","delete"]}"#;
    assert_eq!(ada("POST /api/v1/groups/cut/grant", films), 204);
    assert_eq!(status(harness, "DELETE /media/films/a.ts", cy, ""), 204, "in force at once");
    let groups = call(harness, "GET /api/v1/groups", ADA, "").json();
    assert_eq!((&groups[0]["name"], &groups[0]["members"][0]), (&"cut".into(), &"cy".into()));
    assert_eq!(ada("POST /api/v1/groups/cut/revoke", films), 204);
    assert_eq!(ada("POST /api/v1/groups/cut/revoke", films), 409);
    let first = call(harness, "GET /api/v1/users?limit=2", ADA, "");
    assert_eq!(first.field("link"), Some("</api/v1/users?limit=2&after=bob>; rel=\"next\""));
    let rest = call(harness, "GET /api/v1/users?limit=3&after=bob", ADA, "");
    let names: Vec<_> = rest.json().as_array().expect("a list").iter().map(|user| user["name"].clone()).collect();
    assert_eq!((names, rest.field("link")), (vec!["cy".into(), "eve".into()], None));
    assert_eq!(ada("GET /api/v1/users?limit=0", ""), 400);
    assert_eq!(ada("DELETE /api/v1/users/cy", ""), 204);
    let events = &harness.events;
    events.wait_until(|text| {
        let changed = text.lines().filter(|line| line.contains("\"access_changed\"")).collect::<Vec<_>>();
        changed.len() == 5 && changed.iter().all(|line| line.contains("\"user\":\"ada\"") && !line.contains("password"))
    });
    events.wait_until(|text| text.contains("\"call\":\"RemoveUser\"") && text.contains("\"about\":\"/users/cy\""));
    events.wait_until(|text| text.contains("\"access_refused\"") && text.contains("\"user\":\"cy\""));
    assert_eq!(status(harness, "GET /media/other/b.ts", cy, ""), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_event_log_names_the_account_or_link_behind_each_change_and_refusal() {
    let closed = Closed::start();
    let (harness, events) = (&closed.harness, &closed.harness.events);
    let logged = |members: &[&str]| {
        events.wait_until(|text| text.lines().any(|line| members.iter().all(|member| line.contains(member))));
    };
    let link = closed.change(AccountChange::AddLink(wish("/in", "write")));
    let number = format!("\"user\":\"link:{}\"", link.split('-').next().expect("a number"));
    assert_eq!(status(harness, &format!("PUT /media/in/a.ts?share={link}"), "", ""), 201);
    logged(&["\"upload_ended\"", "in/a.ts", &number]);
    assert_eq!(status(harness, &format!("GET /media/films/a.ts?share={link}"), "", ""), 403);
    logged(&["\"access_refused\"", "/media/films/a.ts", &number, "\"reason\":\"this link gives no right"]);
    assert_eq!(status(harness, &format!("GET /media/films/a.ts?share={link}0"), "", ""), 403);
    logged(&["\"access_refused\"", "\"user\":null", "this link is not known"]);
    assert_eq!(status(harness, "GET /media/films/a.ts", "Authorization: Bearer isocast_no\r\n", ""), 401);
    logged(&["\"access_refused\"", "\"user\":null", "this token is not known"]);
    assert_eq!(status(harness, "POST /api/v1/contents/move?from=films/a.ts&to=films/c.ts", ADA, ""), 204);
    logged(&["\"content_moved\"", "\"path\":\"films/a.ts\"", "\"user\":\"ada\""]);
    assert_eq!(status(harness, "DELETE /media/films/c.ts", ADA, ""), 204);
    logged(&["\"content_deleted\"", "\"path\":\"films/c.ts\"", "\"user\":\"ada\""]);
    // Without a right to see alarms the answer is shorter, and nothing is refused.
    assert_eq!(status(harness, "GET /ready", BOB, ""), 200);
    let wrong = call(harness, "GET /media/films/a.ts", GUESS, "").json();
    assert_eq!(wrong["type"], "urn:isocast:login-wrong");
    logged(&["\"login\"", "\"right\":false"]);
    // A remembered password is not verified again, and the change of a content is none of access.
    events.wait_until(|text| {
        let of = |parts: &[&str]| text.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        let logins = of(&["\"login\"", "\"user\":\"ada\"", "\"right\":true"]);
        (logins, of(&["/ready"]), of(&["access_changed"])) == (1, 0, 0)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_one_folder_sees_the_budgets_that_it_is_charged_to() {
    let closed = Closed::start();
    closed.change(AccountChange::Membership { name: "bob".to_owned(), group: "cut".to_owned(), joins: true });
    for of in ["user:ada", "user:bob", "group:cut", "group:other"] {
        let limits = BudgetLimits { streams: Some(3), ..BudgetLimits::default() };
        closed.change(AccountChange::SetBudget { of: of.parse().expect("a holder"), limits });
    }
    let listed = call(&closed.harness, "GET /api/v1/budgets", BOB, "").json();
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|one| one["budget"].clone()).collect();
    assert_eq!(names, ["group:cut", "user:bob"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_sets_the_budgets_of_users_groups_tokens_and_links() {
    let closed = Closed::start();
    closed.token("bob", given("/films", "read"));
    closed.change(AccountChange::AddLink(wish("/films", "read")));
    let limits = r#"{"streams":2,"reserved_bps":8000000,"idle_bps":1,"download_bps":4000,"upload_bps":3000,"requests":50,"stored_bytes":9}"#;
    let set = |holder: &str, body: &str| status(&closed.harness, &format!("PUT /api/v1/budgets/{holder}"), ADA, body);
    let limits_of = |holder: &str| {
        let listed = call(&closed.harness, "GET /api/v1/budgets", ADA, "").json();
        let found = listed.as_array().expect("a list").iter().find(|one| one["budget"] == holder);
        found.map(|budget| budget["limits"].clone())
    };
    let whole: serde_json::Value = serde_json::from_str(limits).expect("JSON");
    for holder in ["user:bob", "group:cut", "token:1", "link:1"] {
        assert_eq!(set(holder, limits), 204, "{holder}");
        assert_eq!(limits_of(holder), Some(whole.clone()), "{holder}");
    }
    assert_eq!(set("user%3Abob", r#"{"streams":3}"#), 204);
    let of_bob = limits_of("user:bob").expect("listed");
    assert_eq!((&of_bob["streams"], &of_bob["requests"]), (&3.into(), &serde_json::Value::Null), "in place of those");
    assert_eq!(set("group:cut", "{}"), 204);
    assert_eq!(limits_of("group:cut"), None, "it has none any more");
    for (holder, body, refusal) in [
        ("user:dan", limits, 404),
        ("token:9", limits, 404),
        ("link:9", limits, 404),
        ("address:192.0.2.1", limits, 400),
        ("group:a%0Ab", limits, 400),
        ("bob", limits, 400),
        ("user:bob", r#"{"streams":0}"#, 400),
        ("user:bob", r#"{"stream":1}"#, 400),
    ] {
        assert_eq!(set(holder, body), refusal, "{holder} {body}");
    }
    closed.harness.events.wait_until(|text| text.contains("\"about\":\"/budgets/user:bob\",\"call\":\"SetBudget\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_administrator_is_neither_removed_nor_demoted() {
    let closed = Closed::start();
    let ada = |request: &str, body: &str| status(&closed.harness, request, ADA, body);
    let all = r#"{"folder":"/","rights":["admin"]}"#;
    assert_eq!((ada("DELETE /api/v1/users/ada", ""), ada("POST /api/v1/users/ada/revoke", all)), (409, 409));
    assert_eq!((ada("POST /api/v1/users/eve/grant", all), ada("DELETE /api/v1/users/ada", "")), (204, 204));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_have_tokens_and_links_of_their_own_within_their_rights() {
    let closed = Closed::start();
    let harness = &closed.harness;
    let of_ada = call(harness, "POST /api/v1/tokens", ADA, r#"{"rights":["admin"],"label":"top"}"#);
    assert_eq!(of_ada.status, 201);
    let token = format!("Authorization: Bearer {}\r\n", of_ada.json()["token"].as_str().expect("a text"));
    assert_eq!(status(harness, "GET /api/v1/users", &token, ""), 200, "it administers");
    let of_bob =
        call(harness, "POST /api/v1/tokens", BOB, r#"{"rights":["read"],"folder":"/films","expires_seconds":60}"#);
    assert_eq!(of_bob.status, 201);
    let listed = |fields: &str| call(harness, "GET /api/v1/tokens", fields, "").json().as_array().map(Vec::len);
    assert_eq!((listed(BOB), listed(ADA)), (Some(1), Some(2)));
    let for_ada = r#"{"user":"ada","rights":["read"]}"#;
    assert_eq!(status(harness, "POST /api/v1/tokens", BOB, for_ada), 404);
    assert_eq!(status(harness, &format!("DELETE /api/v1/tokens/{}", of_ada.json()["id"]), BOB, ""), 404);
    assert_eq!(status(harness, "POST /api/v1/tokens", BOB, r#"{"rights":["read"],"expires_seconds":0}"#), 400);
    assert_eq!(status(harness, "POST /api/v1/tokens", BOB, r#"{"rights":[]}"#), 400, "a token without a right");
    let reader = format!("Authorization: Bearer {}\r\n", of_bob.json()["token"].as_str().expect("a text"));
    assert_eq!(status(harness, "GET /media/films/a.ts", &reader, ""), 200);
    let rights = call(harness, "GET /api/v1/session", &reader, "").json()["rights"].clone();
    assert_eq!(rights, serde_json::json!([{ "folder": "/films", "rights": ["read"] }]), "within the token's bounds");
    assert_eq!(
        status(harness, "POST /api/v1/tokens", &reader, r#"{"rights":["write"]}"#),
        403,
        "it makes no wider one"
    );
    let beyond = call(harness, "POST /api/v1/tokens", BOB, r#"{"rights":["read","delete","admin"]}"#);
    let names_them = beyond.text().contains("bob has no right to delete,admin in /");
    assert!(beyond.status == 409 && names_them, "{}: {}", beyond.status, beyond.text());
    let share = r#"{"path":"/films/a.ts","expires_seconds":3600,"uses":3,"rate_bps":4000000}"#;
    assert_eq!(status(harness, "POST /api/v1/shares", BOB, share), 403, "bob may not share");
    let to = Grantee::Account("bob".to_owned());
    closed.change(AccountChange::Grant { to, given: given("/films", "share") });
    let made = call(harness, "POST /api/v1/shares", BOB, share);
    assert_eq!(made.status, 201);
    let address = made.json()["address"].as_str().expect("an address").to_owned();
    let shared = call(harness, &format!("GET {address}"), "", "");
    assert_eq!((shared.status, shared.field("x-isocast-rate")), (200, Some("4000000")));
    assert_eq!(status(harness, "POST /api/v1/shares", BOB, &share.replace("/films/a.ts", "/other/b.ts")), 403);
    assert_eq!(status(harness, "POST /api/v1/shares", BOB, &share.replace("/films/a.ts", "/films/../other")), 400);
    assert_eq!(status(harness, "POST /api/v1/shares", BOB, &share.replace("3600", "0")), 400);
    let bytes = share.replace("\"uses\":3", "\"stored_max\":5");
    assert_eq!(status(harness, "POST /api/v1/shares", BOB, &bytes), 400, "bytes of a link that reads");
    let rate = r#"{"path":"/films","expires_seconds":60,"upload":true,"rate_bps":4000000}"#;
    assert_eq!(status(harness, "POST /api/v1/shares", ADA, rate), 400, "a rate of a link that uploads");
    let missing = call(harness, "POST /api/v1/shares", ADA, &share.replace("/films/a.ts", "/films/none.ts"));
    assert!(missing.status == 404 && missing.text().contains("there is no `films/none.ts`"), "{}", missing.text());
    let upload = |path: &str| {
        let body = format!(r#"{{"path":"{path}","expires_seconds":60,"upload":true}}"#);
        status(harness, "POST /api/v1/shares", ADA, &body)
    };
    assert_eq!((upload("/films/a.ts"), upload("/films/new.ts"), upload("/films")), (409, 201, 201));
    let of = Grantee::Account("bob".to_owned());
    closed.change(AccountChange::Revoke { of, taken: given("/films", "share") });
    assert_eq!(status(harness, &format!("GET {address}"), "", ""), 403, "its maker may share no more");
    let id = &made.json()["id"];
    assert_eq!(status(harness, &format!("DELETE /api/v1/shares/{id}"), BOB, ""), 204);
    let password = r#"{"password":"qqqqqqqq","present":"p"}"#;
    assert_eq!(status(harness, "PUT /api/v1/users/bob/password", BOB, r#"{"password":"qqqqqqqq"}"#), 403);
    let short = r#"{"password":"qqqqqqq","present":"p"}"#;
    assert_eq!(status(harness, "PUT /api/v1/users/bob/password", BOB, short), 400);
    assert_eq!(status(harness, "PUT /api/v1/users/ada/password", BOB, password), 404);
    assert_eq!(status(harness, "PUT /api/v1/users/bob/password", BOB, password), 204);
    assert_eq!(status(harness, "GET /api/v1/tokens", BOB, ""), 401, "the old one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_is_logged_in_by_a_cookie_that_only_pages_of_this_origin_use_for_changes() {
    let closed = Closed::start();
    let harness = &closed.harness;
    let login = |fields: &str, password: &str| {
        let body = format!(r#"{{"name":"ada","password":"{password}"}}"#);
        call(harness, "POST /api/v1/session", fields, &body)
    };
    let wrong = login("", "q");
    assert_eq!((wrong.status, wrong.json()["type"].as_str()), (401, Some("urn:isocast:login-wrong")));
    assert!(!wrong.field("www-authenticate").expect("a challenge").starts_with("Basic"), "no form of the browser's");
    assert_eq!(login("Origin: http://evil.example\r\n", "p").status, 403);
    let form =
        "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(harness.one(form).status, 415);
    let cookie_of = |answer: &Answer| {
        let set = answer.field("set-cookie").expect("a cookie");
        assert!(set.contains("; HttpOnly; SameSite=Lax") && set.starts_with("isocast="), "{set}");
        format!("Cookie: {}\r\n", set.split(';').next().expect("a pair"))
    };
    // A text that another client chose is no login, before and after one.
    let planted = "Cookie: isocast=planted\r\n";
    let begun = login(planted, "p");
    assert_eq!((begun.status, &begun.json()["user"]), (200, &"ada".into()));
    harness.events.wait_until(|text| text.contains("\"right\":false") && text.contains("\"right\":true"));
    let cookie = cookie_of(&begun);
    assert_ne!(cookie, planted);
    assert_eq!(status(harness, "GET /media/other/b.ts", planted, ""), 401);
    assert_eq!(status(harness, "GET /media/other/b.ts", &cookie, ""), 200);
    assert_eq!(call(harness, "GET /api/v1/session", &cookie, "").json()["administers"], true);
    let page = format!("{cookie}X-Isocast-Page: 1\r\n");
    assert_eq!(status(harness, "DELETE /media/other/b.ts", &cookie, ""), 401, "not from a page of this origin");
    let elsewhere = format!("{page}Origin: http://evil.example\r\n");
    assert_eq!(status(harness, "DELETE /media/other/b.ts", &elsewhere, ""), 403);
    let preflight = "OPTIONS /media/a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\
                     Access-Control-Request-Method: DELETE\r\nAccess-Control-Request-Headers: x-isocast-page\r\n\r\n";
    assert_eq!(harness.one(preflight).field("access-control-allow-headers"), None);
    assert_eq!(status(harness, "DELETE /media/other/b.ts", &page, ""), 204);
    let bearer = format!("Authorization: Bearer {}\r\n", cookie.trim().trim_start_matches("Cookie: isocast="));
    assert_eq!(status(harness, "GET /media/films/a.ts", &bearer, ""), 401, "a login is no token");
    let again = login(&cookie, "p");
    assert_eq!(status(harness, "GET /media/films/a.ts", &cookie, ""), 401, "another login ends this one");
    let cookie = cookie_of(&again);
    let out = call(harness, "DELETE /api/v1/session", &cookie, "");
    assert!(out.field("set-cookie").expect("a cookie").starts_with("isocast=; Path=/; Max-Age=0;"));
    assert_eq!(status(harness, "GET /media/films/a.ts", &cookie, ""), 401);
    let kept = cookie_of(&login("", "p"));
    closed.change(AccountChange::SetPassword { name: "ada".to_owned(), password_hash: "none".to_owned() });
    assert_eq!(status(harness, "GET /media/films/a.ts", &kept, ""), 401, "another password ends logins");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_user_is_made_once_by_the_code_of_this_start() {
    let state = tempfile::tempdir().expect("a folder");
    let accounts = Arc::<Accounts>::default();
    accounts.open(OpenRights { all_read: false, local_writes: false });
    let keeper = Keeper::start(state.path(), &[], &accounts).expect("started");
    let harness = Harness::with_account_store(HttpConfig::default(), accounts, keeper as Arc<dyn AccountStore>);
    let first = |code: &str, name: &str, password: &str| {
        let body = format!(r#"{{"code":"{code}","name":"{name}","password":"{password}"}}"#);
        status(&harness, "POST /api/v1/first-account", "", &body)
    };
    let password = "password";
    assert_eq!(first("", "ada", password), 403, "there is no code");
    harness.service.credentials.offer_first_account("right");
    assert_eq!((first("wrong", "ada", password), first("right", "a:b", password)), (403, 400));
    assert_eq!(first("right", "ada", "p"), 400, "a password that is guessed soon");
    assert_eq!((first("right", "ada", password), first("right", "eve", password)), (204, 409));
    let ada = "Authorization: Basic YWRhOnBhc3N3b3Jk\r\n";
    assert_eq!(status(&harness, "GET /api/v1/users", ada, ""), 200);
}
