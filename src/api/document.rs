//! The OpenAPI document: made from the handlers, and finished with what is the same for all of them.

mod v3_0;

use serde_json::{Value, json};
use utoipa::{
    Modify,
    openapi::{
        ContentBuilder, HeaderBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder,
        extensions::ExtensionsBuilder,
        path::{Operation, ParameterBuilder, ParameterIn},
        schema::{KnownFormat, SchemaFormat, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::{
    problem::Problem,
    rights::{Access, access},
    routes,
};

pub use v3_0::to_3_0;

/// What the routes are added to.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Lapse",
        description = "A timing-task platform: register a timer, and at its due time the plugin of its type decides.\n\nTimes are RFC 3339 in UTC with milliseconds. Durations are `[0-9]+(ms|s|m|h|d)` or `PnDTnHnMnS`. What is unset is left out. Every error is an RFC 9457 problem; `errors` has each fault with its place: a JSON pointer into the body, or `?name` for a query parameter.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    servers((url = "/")),
    components(schemas(Problem)),
    modifiers(&Security),
    tags(
        (name = "timers", description = "Registering timers, finding them, and acting on them"),
        (name = "plugins", description = "Uploaded WebAssembly components"),
        (name = "types", description = "Timer types and their revisions"),
        (name = "compensations", description = "Effects on other services"),
        (name = "secrets", description = "What plugins may use and never see"),
        (name = "datasources", description = "The business's databases that plugins may use"),
        (name = "keys", description = "API keys"),
        (name = "namespaces", description = "Namespaces"),
        (name = "operations", description = "Figures, health, metrics, and this document"),
    )
)]
pub(super) struct Base;

struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API key")).build();
        document.components.get_or_insert_default().add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

/// The OpenAPI 3.1 document of this version.
pub fn document() -> OpenApi {
    finish(routes::all().into_openapi())
}

/// The same as OpenAPI 3.0.3, for generators of clients that read nothing newer.
pub fn document_3_0() -> Value {
    to_3_0(json!(document()))
}

pub(super) fn finish(mut document: OpenApi) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        for (operation, is_post) in
            [(&mut item.get, false), (&mut item.post, true), (&mut item.put, false), (&mut item.delete, false)]
        {
            if let Some(operation) = operation {
                finish_operation(operation, is_post);
            }
        }
        for operation in [&mut item.post, &mut item.put].into_iter().flatten() {
            add_header(operation, "Idempotency-Key", IDEMPOTENCY_KEY);
        }
    }
    document
}

const IDEMPOTENCY_KEY: &str = "The caller's own id for the message, 1 to 255 characters; a timer's event keeps it as `message_id`. It is not needed for safety: registrations are idempotent by type and key, actions by their result, uploads by their bytes.";
const NAMESPACE: &str = "The namespace that the call is about; an admin's key may name another than its own.";
const IF_MATCH: &str = "The version that the caller has seen, as ETag gave it: another version is refused with 412.";

/// Operations that change one timer.
const ACTIONS: [&str; 5] = ["resolve_timer", "cancel_timer", "reschedule_timer", "fire_timer", "retry_timer"];

/// The calls by POST that may be sent again when no answer came: what the first one did is what the second one finds.
const IDEMPOTENT: &[&str] = &[
    "register_timer",
    "register_timers",
    "resolve_timer",
    "resolve_timer_by_key",
    "cancel_timer",
    "cancel_timer_by_key",
    "upload_plugin",
    "activate_revision",
    "dry_run_type",
    "create_namespace",
];

fn finish_operation(operation: &mut Operation, is_post: bool) {
    let id = operation.operation_id.clone().unwrap_or_default();
    for (range, description) in [("4XX", "The request is refused"), ("5XX", "The server cannot answer now")] {
        operation.responses.responses.insert(range.to_owned(), problem(description));
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            let schema = ObjectBuilder::new().schema_type(Type::String).build();
            let header = HeaderBuilder::new().schema(Some(schema)).description(Some("The id of the request")).build();
            response.headers.insert("X-Request-Id".to_owned(), RefOr::T(header));
        }
    }
    let is_action = ACTIONS.iter().any(|a| id == *a || id == format!("{a}_by_key"));
    if is_action {
        add_header(operation, "If-Match", IF_MATCH);
    }
    let may_be_empty = (is_action && !id.starts_with("reschedule")) || id.starts_with("redrive");
    if let (true, Some(RefOr::T(body))) = (may_be_empty, &mut operation.request_body) {
        body.required = Some(Required::False);
    }
    let (roles, words) = match access(&id) {
        Some(Access::Roles(roles)) => {
            add_header(operation, "Lapse-Namespace", NAMESPACE);
            operation.security = Some(vec![SecurityRequirement::new("bearer", [""; 0])]);
            let roles = json!(roles);
            let names: Vec<_> = roles.as_array().into_iter().flatten().filter_map(|r| r.as_str()).collect();
            let words = format!("Roles: {}.", names.join(", "));
            (roles, words)
        }
        Some(Access::Public) => (json!(["public"]), "Needs no key.".to_owned()),
        None => (json!([]), "Nobody may call this.".to_owned()),
    };
    let is_idempotent = !is_post || IDEMPOTENT.contains(&id.as_str());
    // One extension with all of it: utoipa would write several in any order.
    let extension = json!({"idempotent": is_idempotent, "roles": roles});
    operation.extensions = Some(ExtensionsBuilder::new().add("x-lapse", extension).build());
    bytes(operation);
    let before = operation.description.take().filter(|d| !d.is_empty()).map(|d| d + "\n\n").unwrap_or_default();
    operation.description = Some(before + &words);
}

/// A body of bytes is one, and no list of numbers.
fn bytes(operation: &mut Operation) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    if let Some(RefOr::T(content)) = body.content.get_mut("application/octet-stream") {
        let binary = SchemaFormat::KnownFormat(KnownFormat::Binary);
        content.schema = Some(ObjectBuilder::new().schema_type(Type::String).format(Some(binary)).build().into());
    }
}

fn problem(description: &str) -> RefOr<utoipa::openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(description).content("application/problem+json", content).build().into()
}

fn add_header(operation: &mut Operation, name: &str, description: &str) {
    let schema = ObjectBuilder::new().schema_type(Type::String).build();
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
        .build();
    operation.parameters.get_or_insert_default().push(RefOr::T(parameter));
}
