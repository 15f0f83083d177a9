//! Every route, and what surrounds them all.

use std::any::Any;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, FromRef};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use redrive_engine::console::{Console, Pulse};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{self, Access};
use crate::{
    Caller, Doors, Metrics, Problem, Readiness, Series, conditional, headers, metrics, openapi, pages,
    problem, routes as api, trickle,
};

/// What one request may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body in bytes.
    pub body: usize,
}

/// What the routes reach.
#[derive(Clone)]
pub struct Site {
    /// Who knows whether everything works.
    pub readiness: Arc<dyn Readiness>,
    /// Who may call.
    pub access: Access,
    /// Every dead letter, and what is done about them.
    pub console: Arc<Console>,
    /// What changes, as it changes.
    pub pulse: Pulse,
    /// Where work comes in.
    pub doors: Arc<Doors>,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// The same over time.
    pub series: Series,
    /// Ends long polls when it is cancelled.
    pub stop: CancellationToken,
}

/// Lets a route ask for the one thing that it needs.
macro_rules! parts_of_site {
    ($($field:ident: $part:ty),+) => {
        $(impl FromRef<Site> for $part {
            fn from_ref(site: &Site) -> Self {
                site.$field.clone()
            }
        })+
    };
}
parts_of_site!(
    readiness: Arc<dyn Readiness>,
    access: Access,
    console: Arc<Console>,
    pulse: Pulse,
    doors: Arc<Doors>,
    metrics: Metrics,
    series: Series,
    stop: CancellationToken
);

/// All routes, behind the limits.
pub fn router(site: Site, limits: Limits) -> Router {
    let (access, stop) = (site.access.clone(), site.stop.clone());
    let routes = described(&access).merge(pages::pages()).fallback(pages::not_found).with_state(site);
    guarded(routes.layer(middleware::from_fn_with_state(access, access::guard)), limits, stop)
}

/// The same routes for a caller inside this process, who needs no token.
pub fn inside(site: Site, caller: Caller) -> Router {
    let stop = site.stop.clone();
    let routes = described(&Access::default()).fallback(pages::not_found).with_state(site);
    guarded(routes.layer(Extension(caller)), Limits { body: usize::MAX }, stop)
}

/// The API and its description.
fn described(access: &Access) -> Router<Site> {
    let all = OpenApiRouter::with_openapi(openapi::frame())
        .nest("/api/v1", api::api())
        .routes(routes!(metrics::show))
        .routes(routes!(openapi::show));
    let (routes, description) = all.split_for_parts();
    routes.layer(Extension(openapi::Description::of(description, access)))
}

/// Outermost first: every answer is secured, sent only if it is new and compressed, panics are caught, foreign errors are rewritten, bodies are
/// bounded in time and in size.
fn guarded(routes: Router, limits: Limits, stop: CancellationToken) -> Router {
    routes
        .layer(DefaultBodyLimit::disable())
        .layer(RequestBodyLimitLayer::new(limits.body))
        .layer(middleware::from_fn_with_state(stop, trickle::bound))
        .layer(middleware::map_response(problem::normalise))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(conditional::answer))
        .layer(middleware::map_response(headers::secure))
}

#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over by value")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let said = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = said.unwrap_or("(no message)"), "a request handler panicked");
    let detail = "A defect in redrive ended this request; the log of the server says more.";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use async_trait::async_trait;
    use axum::body::{Body, Bytes, to_bytes};
    use axum::http::{Method, Request};
    use axum::routing::{get, post};
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;
    use crate::Component;

    struct Fixed(Vec<Component>);

    #[async_trait]
    impl Readiness for Fixed {
        async fn check(&self) -> Vec<Component> {
            self.0.clone()
        }
    }

    const LIMITS: Limits = Limits { body: 10 };

    fn component(name: &str, ok: bool) -> Component {
        let reason = (!ok).then_some("store-unreachable");
        let (since, detail) = (jiff::Timestamp::UNIX_EPOCH, Some("as said".to_owned()));
        Component { name: name.to_owned(), kind: "outbox", ok, reason, since, detail }
    }

    static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::install().unwrap());

    fn with(components: Vec<Component>) -> Router {
        let readiness = Arc::new(Fixed(components));
        let stop = CancellationToken::new();
        let database = redrive_store::Database::open("sqlite::memory:").unwrap();
        let console = Arc::new(Console::new(redrive_engine::console::Records::of(&database), []));
        let (access, doors, metrics) = (Access::default(), Arc::default(), METRICS.clone());
        let pulse = Pulse::default();
        let series = Series::default();
        router(Site { readiness, access, console, pulse, doors, metrics, series, stop }, LIMITS)
    }

    async fn ask(router: Router, method: Method, path: &str, body: &'static str) -> (Response, Value) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
        let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
        let bytes = to_bytes(body, 10_000).await.unwrap();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (Response::from_parts(parts, Body::empty()), json)
    }

    #[tokio::test]
    async fn health_tells_the_version() {
        let (response, json) = ask(with(vec![]), Method::GET, "/api/v1/health", "").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(json["status"], "healthy");
        assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    }

    #[tokio::test]
    async fn ready_has_a_line_for_each_component() {
        let all = vec![component("orders", true), component("mails", true)];
        let (response, json) = ask(with(all), Method::GET, "/api/v1/ready", "").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(json["status"], "ready");
        assert_eq!(json["components"].as_array().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn one_component_that_is_down_makes_the_whole_not_ready() {
        let all = vec![component("orders", true), component("mails", false)];
        let (response, json) = ask(with(all), Method::GET, "/api/v1/ready", "").await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(json["status"], "not ready");
        assert_eq!(json["components"][1]["ok"], false);
    }

    fn assert_problem(response: &Response, json: &Value, status: u16) {
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert_eq!(json["status"], status);
        for field in ["type", "title", "detail"] {
            assert!(json[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {json}");
        }
    }

    #[tokio::test]
    async fn an_unknown_address_is_a_problem() {
        for path in ["/nothing", "/api/v1/nothing", "/api/v1", "/health"] {
            let (response, json) = ask(with(vec![]), Method::GET, path, "").await;
            assert_problem(&response, &json, 404);
            assert!(json["detail"].as_str().unwrap().contains(path));
        }
    }

    #[tokio::test]
    async fn a_wrong_method_is_a_problem_that_lists_the_right_ones() {
        let (response, json) = ask(with(vec![]), Method::DELETE, "/api/v1/health", "").await;
        assert_problem(&response, &json, 405);
        assert!(response.headers()["allow"].to_str().unwrap().contains("GET"));
    }

    fn with_probes() -> Router {
        async fn panics() -> StatusCode {
            panic!("boom, with a secret")
        }
        async fn swallows(_: Bytes) -> StatusCode {
            StatusCode::OK
        }
        guarded(
            Router::new().route("/panic", get(panics)).route("/body", post(swallows)),
            LIMITS,
            CancellationToken::new(),
        )
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_that_keeps_its_message_to_itself() {
        let (response, json) = ask(with_probes(), Method::GET, "/panic", "").await;
        assert_problem(&response, &json, 500);
        assert!(!json.to_string().contains("boom"));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_a_problem() {
        let (response, json) = ask(with_probes(), Method::POST, "/body", "12345678901").await;
        assert_problem(&response, &json, 413);
        let (response, _) = ask(with_probes(), Method::POST, "/body", "1234567890").await;
        assert_eq!(response.status(), StatusCode::OK);
    }
}
