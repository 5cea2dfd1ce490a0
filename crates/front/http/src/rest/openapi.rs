//! The description of the API (OpenAPI 3.1), made of the table of calls and of the types of `api`.
//!
//! Promise: each call of the table, and each document that it names, is described. Not here: the table (`route_table`).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::message::problem_type::ProblemType;
use crate::route_table::{REQUIRED_KEYS, ROUTES};
use crate::routes::{API, CallAnswer, CallRight, Route};

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

type Schemas = Vec<(String, RefOr<Schema>)>;

/// The schemas of a type, and of those that it is made of.
fn with_parts<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// Documents of answers: all their members are always there.
const ANSWERS: &[fn(&mut Schemas)] = &[
    with_parts::<api::System>,
    with_parts::<api::LiveFigures>,
    with_parts::<api::FiguresHistory>,
    with_parts::<api::Disk>,
    with_parts::<api::Stream>,
    with_parts::<api::StreamExplanation>,
    with_parts::<api::JobStatus>,
    with_parts::<api::VolumeStatus>,
    with_parts::<api::Alarm>,
    with_parts::<api::QuotaStatus>,
    with_parts::<api::BudgetStatus>,
    with_parts::<api::Forecast>,
    with_parts::<api::Removals>,
    with_parts::<api::UploadStatus>,
    with_parts::<api::WebhookStatus>,
    with_parts::<api::CertificateStatus>,
    with_parts::<api::LoginStatus>,
    with_parts::<api::AccountEntry>,
    with_parts::<api::GroupEntry>,
    with_parts::<api::TokenEntry>,
    with_parts::<api::TokenText>,
    with_parts::<api::LinkEntry>,
    with_parts::<api::LinkText>,
    with_parts::<api::ReservationEntry>,
    with_parts::<api::SettingEntry>,
    with_parts::<api::ListingEntry>,
    with_parts::<api::TrashEntry>,
    with_parts::<api::FoundNames>,
    with_parts::<api::ContentDetails>,
];

/// Documents of requests.
const REQUESTS: &[fn(&mut Schemas)] = &[
    with_parts::<api::PasswordLogin>,
    with_parts::<api::FirstAccount>,
    with_parts::<api::NewAccount>,
    with_parts::<api::NewPassword>,
    with_parts::<api::GrantEntry>,
    with_parts::<api::NewToken>,
    with_parts::<api::NewLink>,
    with_parts::<api::NewReservation>,
    with_parts::<api::SettingsPatch>,
];

/// The description, as JSON.
pub(super) fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| serde_json::to_string_pretty(&document()).expect("a document is JSON") + "\n")
}

fn document() -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let calls = paths.entry(format!("{API}{}", route.path)).or_default();
        calls.insert(route.method.to_ascii_lowercase(), operation(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Isocast",
            "description": "Live figures, control, accounts. Contents are below /media/: docs/reference/http.md.",
            "version": "1",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "password": { "type": "http", "scheme": "basic", "description": "Over TLS, or from the same machine." },
                "token": { "type": "http", "scheme": "bearer" },
                "browser": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "isocast",
                    "description": "As `POST /api/v1/session` sets it, within TLS as `__Host-isocast`. Calls that change something \
                                    need the field `X-Isocast-Page` beside it.",
                },
            },
        },
    })
}

fn schemas() -> Map<String, Value> {
    let mut all = Map::new();
    for (documents, is_answer) in [(REQUESTS, false), (ANSWERS, true)] {
        let mut schemas = Schemas::new();
        documents.iter().for_each(|add| add(&mut schemas));
        for (name, schema) in schemas {
            let mut schema = serde_json::to_value(schema).expect("a schema is JSON");
            if is_answer && let Some(members) = schema.get("properties").and_then(Value::as_object) {
                let members: Vec<_> =
                    members.keys().filter(|member| !LEFT_OUT.contains(&member.as_str())).cloned().collect();
                schema["required"] = json!(members);
            }
            all.insert(name, schema);
        }
    }
    all.insert("Problem".to_owned(), problem());
    all
}

/// Lists with entries that have numbers.
const NUMBERED_LISTS: &[&str] = &["/streams", "/tokens", "/shares", "/reservations"];
/// Members of a listing's entry that are left out where they say nothing.
const LEFT_OUT: &[&str] = &["link", "rate_source", "mean_bps"];

/// A refusal (RFC 9457).
fn problem() -> Value {
    json!({
        "type": "object",
        "description": "A refusal (RFC 9457).",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string", "enum": ProblemType::names(), "description": "Its kind; it does not change." },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "The reason and the remedy, for people." },
            "resource": { "type": "string", "description": "The kind of the thing that is short." },
            "name": { "type": "string", "description": "The name of the disk or link that is short." },
            "grantable_bps": { "type": "integer", "description": "The rate that would be granted." },
            "left_bps": { "type": "integer", "description": "Of a link: the part of its rate that is not promised." },
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut responses = Map::new();
    let (status, answer) = success(route);
    responses.insert(status.to_owned(), answer);
    let rights: &[(u16, &str)] = match route.right {
        CallRight::Open => &[],
        CallRight::Read => &[(401, "Reading needs a login."), (403, "This client may not read that.")],
        CallRight::Observe => &[(401, "Reading needs a login."), (403, "This client may not read everything.")],
        CallRight::Write => &[(401, "Writing needs a login."), (403, "This client may not change that.")],
        CallRight::Administer => &[(401, "It needs a login."), (403, "This client does not administer the server.")],
        CallRight::Own => &[(401, "It needs a login."), (403, "This client has no credentials of its own.")],
        CallRight::Share => &[(401, "It needs a login."), (403, "This client has no right to share that.")],
    };
    let body: &[(u16, &str)] = match route.body {
        Some(_) => &[(400, "The body is not such a document."), (415, "The body is not JSON.")],
        None if !route.query.is_empty() => &[(400, "The query is malformed.")],
        None => &[],
    };
    for (status, meaning) in rights.iter().chain(body).chain(route.refusals) {
        responses.insert(status.to_string(), refusal(meaning));
    }
    responses.insert("default".to_owned(), refusal("Another refusal."));
    let mut operation = json!({
        "operationId": format!("{:?}", route.call),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses,
    });
    if let Some(name) = route.body {
        let content = json!({ JSON: { "schema": reference(name) } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    if route.right != CallRight::Open {
        operation["security"] = json!([{}, { "password": [] }, { "token": [] }, { "browser": [] }]);
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| {
        let kind = if name == "id" || name == "number" { "integer" } else { "string" };
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": kind } })
    });
    let in_query = route.query.iter().map(|(key, meaning)| {
        let schema = match *key {
            "limit" => json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
            "path" if route.answer == CallAnswer::Zip => json!({ "type": "array", "items": { "type": "string" } }),
            "seconds" => json!({ "type": "integer", "minimum": 0 }),
            "replace" | "trash" | "empty" => json!({ "type": "boolean" }),
            "after" if NUMBERED_LISTS.contains(&route.path) => json!({ "type": "integer" }),
            "protected" => json!({ "type": "array", "items": { "type": "string" } }),
            _ => json!({ "type": "string" }),
        };
        let required = REQUIRED_KEYS.contains(key);
        json!({ "name": key, "in": "query", "required": required, "description": meaning, "schema": schema })
    });
    in_path.chain(in_query).collect()
}

fn success(route: &Route) -> (&'static str, Value) {
    let described = |schema: Value| json!({ "description": route.summary, "content": { JSON: { "schema": schema } } });
    match route.answer {
        CallAnswer::One(name) => ("200", described(reference(name))),
        CallAnswer::List(name) => ("200", described(json!({ "type": "array", "items": reference(name) }))),
        CallAnswer::Made(name) => ("201", described(reference(name))),
        CallAnswer::Json => ("200", described(json!({}))),
        CallAnswer::Zip => ("200", json!({ "description": route.summary, "content": { "application/zip": {} } })),
        CallAnswer::Jpeg => ("200", json!({ "description": route.summary, "content": { "image/jpeg": {} } })),
        CallAnswer::Begun => ("202", json!({ "description": "It begins." })),
        CallAnswer::Done => ("204", json!({ "description": "It is done." })),
    }
}

fn refusal(meaning: &str) -> Value {
    json!({ "description": meaning, "content": { PROBLEM: { "schema": reference("Problem") } } })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page is built before the server, so that the types of its requests need a file.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/openapi.json");

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test reads and writes a file")]
    fn the_file_for_the_page_is_the_description() {
        if std::env::var_os("WRITE_OPENAPI").is_some() {
            std::fs::write(FILE, text()).expect("written");
        }
        let file = std::fs::read_to_string(FILE).expect("the file is in the repository");
        assert!(file == text(), "the API changed: WRITE_OPENAPI=1 cargo test -p http@0.1.0 the_file_for_the_page");
    }

    /// All references of a document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn each_document_that_is_named_is_described() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > ROUTES.len());
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").expect("a schema");
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        let operations = document["paths"].as_object().expect("paths").values();
        assert_eq!(operations.map(|path| path.as_object().map_or(0, Map::len)).sum::<usize>(), ROUTES.len());
    }
}
