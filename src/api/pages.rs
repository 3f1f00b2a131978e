//! What people and machines read about the service: metrics, the document, and its page.
//!
//! The page is made from the document, without a script or anything from elsewhere, so that its policy can forbid all.

use std::fmt::Write as _;

use axum::{
    extract::State,
    http::{HeaderName, header},
    response::{Html, IntoResponse},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use utoipa::openapi::OpenApi;

use super::Api;

/// Made once, at the start.
pub(super) struct Pages {
    openapi: String,
    docs: String,
    policy: String,
}

const STYLE: &str = include_str!("docs.css");

impl Pages {
    pub fn of(document: &OpenApi) -> Self {
        let openapi = document.to_pretty_json().unwrap_or_else(|e| unreachable!("the document is plain data: {e}"));
        let style = STANDARD.encode(Sha256::digest(STYLE));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        let docs = page(&serde_json::to_value(document).unwrap_or_default());
        Self { openapi, docs, policy }
    }
}

/// The metrics, in Prometheus's text format.
///
/// On the same address as the API and without a key, as scrapers expect; a proxy in front should keep it inside.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "operations",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"))
)]
pub async fn get_metrics(State(api): State<Api>) -> impl IntoResponse {
    // Ends the ramps that no call has ended.
    drop(api.breakers.snapshot());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.metrics.render())
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_openapi", tag = "operations",
    responses((status = 200, description = "The document", body = serde_json::Value))
)]
pub async fn get_openapi(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], api.pages.openapi.clone())
}

/// This document as a page.
#[utoipa::path(
    get, path = "/docs", operation_id = "get_docs", tag = "operations",
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub async fn get_docs(State(api): State<Api>) -> impl IntoResponse {
    let headers: [(HeaderName, String); 3] = [
        (header::CONTENT_SECURITY_POLICY, api.pages.policy.clone()),
        (header::X_FRAME_OPTIONS, "DENY".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (headers, Html(api.pages.docs.clone()))
}

fn page(document: &Value) -> String {
    let mut out = String::new();
    let title = text(&document["info"]["title"]);
    let version = text(&document["info"]["version"]);
    let _ = write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title} API</title>\
         <style>{STYLE}</style></head><body><header><h1>{title} API <small>{version}</small></h1>{}\
         <p><a href=\"/openapi.json\">openapi.json</a></p></header>",
        paragraphs(&document["info"]["description"])
    );
    let tags = document["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    out.push_str("<nav><ul>");
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = write!(out, "<li><a href=\"#{name}\">{name}</a></li>");
    }
    out.push_str("<li><a href=\"#schemas\">schemas</a></li></ul></nav><main>");
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = write!(out, "<section id=\"{name}\"><h2>{name}</h2>{}", paragraphs(&tag["description"]));
        for (path, item) in members(&document["paths"]) {
            for (method, operation) in members(item) {
                if operation["tags"][0] == tag["name"] {
                    write_operation(&mut out, method, path, operation);
                }
            }
        }
        out.push_str("</section>");
    }
    out.push_str("<section id=\"schemas\"><h2>schemas</h2>");
    for (name, schema) in members(&document["components"]["schemas"]) {
        let name = escape(name);
        let _ = write!(out, "<details id=\"schema-{name}\"><summary>{name}</summary>");
        write_schema(&mut out, schema);
        out.push_str("</details>");
    }
    out.push_str("</section></main></body></html>");
    out
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn write_operation(out: &mut String, method: &str, path: &str, operation: &Value) {
    let id = text(&operation["operationId"]);
    let _ = write!(
        out,
        "<details id=\"{id}\"><summary><b class=\"{method}\">{method}</b> <code>{}</code> <span>{}</span></summary>{}",
        escape(path),
        text(&operation["summary"]),
        paragraphs(&operation["description"])
    );
    let _ = write!(out, "<p>Operation <code>{id}</code></p>");
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        out.push_str("<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>");
        for p in parameters {
            let required = if p["required"] == true { ", required" } else { "" };
            let _ = write!(
                out,
                "<tr><td><code>{}</code></td><td>{}{required}</td><td>{}</td><td>{}</td></tr>",
                text(&p["name"]),
                text(&p["in"]),
                kind(&p["schema"]),
                text(&p["description"])
            );
        }
        out.push_str("</table>");
    }
    for (content_type, body) in members(&operation["requestBody"]["content"]) {
        let _ = write!(out, "<p>Body: {} as <code>{}</code></p>", kind(&body["schema"]), escape(content_type));
    }
    out.push_str("<table><tr><th>answer</th><th>body</th><th></th></tr>");
    for (status, response) in members(&operation["responses"]) {
        let body = members(&response["content"]).map(|(_, c)| kind(&c["schema"])).collect::<Vec<_>>().join(", ");
        let status = escape(status);
        let _ = write!(out, "<tr><td>{status}</td><td>{body}</td><td>{}</td></tr>", text(&response["description"]));
    }
    out.push_str("</table></details>");
}

fn write_schema(out: &mut String, schema: &Value) {
    out.push_str(&paragraphs(&schema["description"]));
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|w| format!("<code>{}</code>", text(w))).collect();
        let _ = write!(out, "<p>{}</p>", words.join(", "));
    }
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    if schema["properties"].is_object() {
        out.push_str("<table><tr><th>field</th><th>type</th><th></th></tr>");
        for (name, property) in members(&schema["properties"]) {
            let mark = if required.iter().any(|r| r == name) { " <em>required</em>" } else { "" };
            let (name, description) = (escape(name), text(&property["description"]));
            let _ = write!(
                out,
                "<tr><td><code>{name}</code>{mark}</td><td>{}</td><td>{description}</td></tr>",
                kind(property)
            );
        }
        out.push_str("</table>");
    }
    if !schema["example"].is_null() {
        let example = serde_json::to_string_pretty(&schema["example"]).unwrap_or_default();
        let _ = write!(out, "<pre>{}</pre>", escape(&example));
    }
}

/// A schema in a word or two; the document nests them one array deep at most.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    match schema["type"].as_str() {
        Some("array") => {
            let items = &schema["items"];
            let inner = if items["type"] == "array" { "array".to_owned() } else { kind(items) };
            format!("array of {inner}")
        }
        Some(name) => match schema["format"].as_str() {
            Some(format) => format!("{} ({})", escape(name), escape(format)),
            None => escape(name),
        },
        None => "any".to_owned(),
    }
}

fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

fn paragraphs(value: &Value) -> String {
    let mut out = String::new();
    for paragraph in value.as_str().unwrap_or_default().split("\n\n").filter(|p| !p.is_empty()) {
        let _ = write!(out, "<p>{}</p>", escape(paragraph));
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
