//! `GET /openapi.json`: the API, described by its own handlers.

mod examples;

use axum::Extension;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, ResponseBuilder,
};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::{Access, Problem};

const ABOUT: &str = "Every dead letter of every pipeline, and what is done about them. Errors are problem documents \
    (RFC 9457) with a sentence that says what to do.";
/// What needs no token.
const OPEN: [&str; 2] = ["/api/v1/health", "/api/v1/ready"];

/// The finished description, as it is sent.
#[derive(Clone)]
pub(crate) struct Description(Bytes);

/// The description without any route.
pub(crate) fn frame() -> OpenApi {
    let info = InfoBuilder::new()
        .title("redrive")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .build();
    let token = SecurityScheme::Http(
        HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("One of `server.tokens`; without tokens redrive listens on loopback only."))
            .build(),
    );
    let mut components = ComponentsBuilder::new().security_scheme("token", token).build();
    components.schemas.insert(Problem::name().into_owned(), Problem::schema());
    OpenApiBuilder::new().info(info).components(Some(components)).build()
}

impl Description {
    /// Adds what holds for every route: problems, who may call, and examples.
    pub(crate) fn of(mut description: OpenApi, access: &Access) -> Self {
        for (path, item) in &mut description.paths.paths {
            let is_open = OPEN.contains(&path.as_str());
            for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
                tell_problems(operation);
                examples::add(operation);
                operation.security = Some(if is_open { Vec::new() } else { tokens(access) });
            }
        }
        Self(serde_json::to_vec(&description).unwrap_or_default().into())
    }
}

fn tell_problems(operation: &mut Operation) {
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    let response = ResponseBuilder::new()
        .description("A problem: what happened, to what, and what to do.")
        .content("application/problem+json", problem)
        .build();
    operation.responses.responses.insert("default".to_owned(), response.into());
}

/// A token; where none is configured, nothing will do as well.
fn tokens(access: &Access) -> Vec<SecurityRequirement> {
    let scopes: [&str; 0] = [];
    let mut ways = vec![SecurityRequirement::new("token", scopes)];
    if !access.asks_for_tokens() {
        ways.push(SecurityRequirement::default());
    }
    ways
}

/// The description of the API (OpenAPI 3.1).
#[utoipa::path(get, path = "/openapi.json", operation_id = "get_openapi", tag = "numbers",
    responses((status = 200, description = "The description.", content_type = "application/json", body = serde_json::Value)))]
pub(crate) async fn show(Extension(Description(json)): Extension<Description>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], json)
}
