//! Who may call what.
//!
//! - Without tokens redrive listens on loopback only, and whoever reaches it may do everything. A page
//!   on the web reaches it, too, through the browser of somebody on this machine: so the request must be
//!   addressed to this machine by a name that only this machine has (no rebound DNS name).
//! - With tokens every request carries one: `Authorization: Bearer …`. Only hashes are kept, and they are
//!   compared in constant time, with all of them each time.
//! - A browser gives the token once, at `/login`, and is then known by its session; only pages know
//!   sessions, the API asks for the token each time.
//! - A change that a browser sends must come from a page of ours.
//!
//! | request | needs |
//! |---|---|
//! | `/api/v1/health`, `/api/v1/ready` | nobody in particular; the details of `/ready` need a viewer |
//! | `/login`, the style sheet, the script | nobody in particular, but a name of this machine without tokens |
//! | `GET`, `HEAD`, `/logout` | a viewer |
//! | whatever destroys: `DELETE`, `…/purge`, `…/retention` | an admin |
//! | everything else | an operator |
//!
//! A token that nobody has is counted, logged and answered slowly ([`crate::failures`]).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::failures::{Attempt, Failures, Peer, Reason};
use crate::session::{Sessions, Wire};
use crate::{Problem, origin, pages};

/// What somebody may do; each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May look.
    Viewer,
    /// May put work in, redrive and resolve.
    Operator,
    /// May do everything, also destroy.
    Admin,
}

impl Role {
    const fn with_article(self) -> &'static str {
        match self {
            Self::Viewer => "a viewer",
            Self::Operator => "an operator",
            Self::Admin => "an admin",
        }
    }
}

/// Somebody with a token.
#[derive(Clone)]
pub struct Grant {
    /// Who it is, for the audit log.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The SHA-256 of their token.
    pub sha256: [u8; 32],
}

/// Who may call.
#[derive(Clone, Default)]
pub struct Access {
    grants: Arc<[Grant]>,
    sessions: Sessions,
    failures: Failures,
}

/// Why a request is not let through.
#[derive(Debug)]
pub(crate) struct Denied {
    pub(crate) problem: Box<Problem>,
    /// Nobody knows who it is.
    stranger: Option<Reason>,
}

impl From<Problem> for Denied {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), stranger: None }
    }
}

/// Who called; the routes find it among the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Their name.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

/// Lets a request through, or says why not.
pub(crate) async fn guard(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let admitted = access.admit(&request);
    if let Some(reason) =
        admitted.as_ref().map_or_else(|denied| denied.stranger, |admitted| admitted.stranger)
    {
        access.failures.refused(reason, attempt(&request)).await;
    }
    match admitted {
        Ok(Admitted { caller, .. }) => {
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(denied) => turn_away(*denied.problem, &request),
    }
}

/// A request that is answered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Admitted {
    caller: Option<Caller>,
    /// It has a token that nobody has, where none is needed: it is answered, with less.
    stranger: Option<Reason>,
}

fn attempt(request: &Request) -> Attempt<'_> {
    let peer = request.extensions().get::<Peer>().copied();
    Attempt { method: request.method(), path: request.uri().path(), peer }
}

impl Access {
    /// These people; with none of them, everybody on this machine.
    #[must_use]
    pub fn new(grants: Vec<Grant>) -> Self {
        Self { grants: grants.into(), sessions: Sessions::default(), failures: Failures::default() }
    }

    /// Whether people must say who they are.
    pub(crate) fn asks_for_tokens(&self) -> bool {
        !self.grants.is_empty()
    }

    /// Opens a session for whoever has this token; returns who that is, and the cookie to set. A wrong one takes a
    /// while.
    pub(crate) async fn log_in(
        &self,
        token: &[u8],
        headers: &HeaderMap,
        peer: Option<Peer>,
    ) -> Result<(Caller, String), Problem> {
        let caller = match self.holder(token.trim_ascii()) {
            Ok(caller) => caller,
            Err(Denied { problem, stranger }) => {
                if let Some(reason) = stranger {
                    let attempt = Attempt { method: &Method::POST, path: "/login", peer };
                    self.failures.refused(reason, attempt).await;
                }
                return Err(*problem);
            }
        };
        let encrypted = headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
        let wire = if encrypted { Wire::Encrypted } else { Wire::Plain };
        let cookie = self.sessions.open(caller.clone(), wire).map_err(|error| {
            tracing::error!(%error, "no session can be opened");
            Problem::unavailable(
                "This machine has no random numbers to give: the log of the server says more.",
            )
        })?;
        Ok((caller, cookie))
    }

    /// Ends the session of this request; returns the cookie to set.
    pub(crate) fn log_out(&self, headers: &HeaderMap) -> String {
        self.sessions.close(headers)
    }

    fn admit(&self, request: &Request) -> Result<Admitted, Denied> {
        let (headers, method, path) = (request.headers(), request.method(), request.uri().path());
        let need = need(method, path);
        if need == Need::Nothing {
            return Ok(self.admit_anybody(request));
        }
        if self.grants.is_empty() {
            origin::must_be_here(headers)?;
        }
        if is_change(method) {
            origin::must_be_ours(headers)?;
        }
        let Need::Role(needed) = need else { return Ok(Admitted::default()) };
        let caller = self.caller(request)?;
        if caller.role < needed {
            let detail = format!(
                "{} {} needs {}, and the token of {} is that of {}: ask for a token with that role.",
                method,
                path,
                needed.with_article(),
                caller.name,
                caller.role.with_article()
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, detail).into());
        }
        Ok(Admitted { caller: Some(caller), stranger: None })
    }

    /// They are answered all the same, with less.
    fn admit_anybody(&self, request: &Request) -> Admitted {
        if !self.asks_for_tokens() && origin::must_be_here(request.headers()).is_err() {
            return Admitted::default();
        }
        match self.caller(request) {
            Ok(caller) => Admitted { caller: Some(caller), stranger: None },
            // A guess is one here, too: the answer to a right one is another.
            Err(denied) => {
                let stranger = denied.stranger.filter(|reason| *reason == Reason::Unknown);
                Admitted { caller: None, stranger }
            }
        }
    }

    fn caller(&self, request: &Request) -> Result<Caller, Denied> {
        if self.grants.is_empty() {
            return Ok(Caller { name: "local".to_owned(), role: Role::Admin });
        }
        let headers = request.headers();
        let token = headers.get(AUTHORIZATION).and_then(bearer);
        let may_have_session = token.is_none() && is_page(request.uri().path());
        if let Some(caller) = may_have_session.then(|| self.sessions.find(headers)).flatten() {
            return Ok(in_session(caller, request)?);
        }
        let token = token.ok_or_else(|| {
            unauthorized(Reason::Missing, "This server asks for a token: send `Authorization: Bearer TOKEN`.")
        })?;
        self.holder(token)
    }

    /// Whose token it is. No token at all is nobody's, even if somebody's hash is that of nothing.
    fn holder(&self, token: &[u8]) -> Result<Caller, Denied> {
        let hash = Sha256::digest(token);
        // Every hash is looked at, whether one before it was right or not.
        let mut found = None;
        for grant in &*self.grants {
            if bool::from(grant.sha256.as_slice().ct_eq(hash.as_slice())) {
                found = Some(grant);
            }
        }
        let grant = found.filter(|_| !token.is_empty()).ok_or_else(|| {
            unauthorized(
                Reason::Unknown,
                "Nobody here has this token: check it against `server.tokens`, which holds its SHA-256.",
            )
        })?;
        Ok(Caller { name: grant.name.clone(), role: grant.role })
    }
}

/// A program gets the problem; a person gets a page, or is asked who they are.
fn turn_away(problem: Problem, request: &Request) -> Response {
    let path = request.uri().path();
    let is_stream = path.starts_with("/ui/");
    if problem.status() != StatusCode::UNAUTHORIZED {
        return if is_page(path) { pages::refused(&problem) } else { problem.into_response() };
    }
    if is_page(path) && !is_stream && !request.headers().contains_key(AUTHORIZATION) {
        return Redirect::to(&pages::login_address(request.method(), request.uri())).into_response();
    }
    let mut response = problem.into_response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// A browser sends the cookie by itself, so it must also say which page made it do so.
fn in_session(caller: Caller, request: &Request) -> Result<Caller, Problem> {
    if is_change(request.method()) && !origin::is_said(request.headers()) {
        let detail = "The request does not say which page sent it: use a browser of this decade, or the API.";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(caller)
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Nothing, however it came.
    Nothing,
    /// To have reached us properly.
    Manners,
    /// To be somebody of this role.
    Role(Role),
}

fn need(method: &Method, path: &str) -> Need {
    match path {
        "/api/v1/health" | "/api/v1/ready" => Need::Nothing,
        "/login" | "/ui/style.css" | "/ui/app.js" | "/ui/icon.svg" => Need::Manners,
        "/logout" => Need::Role(Role::Viewer),
        _ if destroys(method, path) => Need::Role(Role::Admin),
        _ if is_change(method) => Need::Role(Role::Operator),
        _ => Need::Role(Role::Viewer),
    }
}

/// Whether it takes away what cannot be brought back.
fn destroys(method: &Method, path: &str) -> bool {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    *method == Method::DELETE || (is_change(method) && matches!(last, "delete" | "purge" | "retention"))
}

fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// Whether a person looks at it, rather than a program.
fn is_page(path: &str) -> bool {
    !path.starts_with("/api/") && !matches!(path, "/metrics" | "/openapi.json")
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then(|| token.trim_ascii())
}

fn unauthorized(reason: Reason, detail: &str) -> Denied {
    let problem = Box::new(Problem::new(StatusCode::UNAUTHORIZED, detail));
    Denied { problem, stranger: Some(reason) }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn grant(name: &str, role: Role, token: &str) -> Grant {
        Grant { name: name.to_owned(), role, sha256: Sha256::digest(token).into() }
    }

    fn three() -> Access {
        Access::new(vec![
            grant("vera", Role::Viewer, "v"),
            grant("otto", Role::Operator, "o"),
            grant("ada", Role::Admin, "a"),
        ])
    }

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn status(access: &Access, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        match access.admit(&request(method, path, headers)) {
            Ok(_) => 200,
            Err(denied) => denied.problem.status().as_u16(),
        }
    }

    /// Role × route: what each may do.
    #[test]
    fn every_role_may_do_what_its_name_says_and_no_more() {
        let access = three();
        let rows: [(&str, &str, [u16; 5]); 18] = [
            // nobody, a wrong token, viewer, operator, admin
            ("GET", "/api/v1/health", [200; 5]),
            ("GET", "/api/v1/ready", [200; 5]),
            ("GET", "/metrics", [401, 401, 200, 200, 200]),
            ("GET", "/api/v1/dead-letters", [401, 401, 200, 200, 200]),
            ("POST", "/api/v1/outbox/orders/events", [401, 401, 403, 200, 200]),
            ("POST", "/api/v1/jobs/mails/claim", [401, 401, 403, 200, 200]),
            ("DELETE", "/api/v1/whatever", [401, 401, 403, 403, 200]),
            ("POST", "/api/v1/pipelines/orders/purge", [401, 401, 403, 403, 200]),
            ("POST", "/letters/delete", [401, 401, 403, 403, 200]),
            ("PUT", "/api/v1/retention/", [401, 401, 403, 403, 200]),
            ("GET", "/api/v1/retention", [401, 401, 200, 200, 200]),
            ("GET", "/", [401, 401, 200, 200, 200]),
            ("GET", "/letters/orders:1/payload", [401, 401, 200, 200, 200]),
            ("GET", "/ui/stream", [401, 401, 200, 200, 200]),
            ("GET", "/ui/style.css", [200; 5]),
            ("POST", "/login", [200; 5]),
            ("POST", "/operations", [401, 401, 403, 200, 200]),
            ("POST", "/logout", [401, 401, 200, 200, 200]),
        ];
        let tokens = [None, Some("Bearer x"), Some("Bearer v"), Some("bearer o"), Some("Bearer a")];
        for (method, path, expected) in rows {
            for (token, expected) in tokens.iter().zip(expected) {
                let headers: Vec<_> = token.iter().map(|token| ("authorization", *token)).collect();
                assert_eq!(status(&access, method, path, &headers), expected, "{method} {path} {token:?}");
            }
        }
    }

    #[test]
    fn the_caller_is_known_by_name() {
        let admitted = three().admit(&request("GET", "/metrics", &[("authorization", "Bearer o")])).unwrap();
        assert_eq!(admitted.caller, Some(Caller { name: "otto".to_owned(), role: Role::Operator }));
    }

    #[test]
    fn without_tokens_only_names_of_this_machine_are_answered() {
        let access = Access::default();
        for host in ["localhost", "localhost:7070", "127.0.0.1:7070", "127.1.2.3", "[::1]:7070", "[::1]"] {
            assert_eq!(status(&access, "POST", "/api/v1/jobs/a", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "evil.example:7070", "localhost.evil.example", "10.0.0.1", ""] {
            assert_eq!(status(&access, "GET", "/metrics", &[("host", host)]), 403, "{host}");
        }
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let access = Access::default();
        let host = ("host", "localhost:7070");
        for (header, expected) in [
            (("origin", "http://localhost:7070"), 200),
            (("origin", "http://localhost:8080"), 403),
            (("origin", "https://evil.example"), 403),
            (("origin", "null"), 403),
            (("sec-fetch-site", "cross-site"), 403),
            (("sec-fetch-site", "same-site"), 403),
            (("sec-fetch-site", "same-origin"), 200),
            (("sec-fetch-site", "none"), 200),
        ] {
            assert_eq!(status(&access, "POST", "/api/v1/jobs/a", &[host, header]), expected, "{header:?}");
        }
        let looking = [host, ("origin", "https://evil.example")];
        assert_eq!(status(&access, "GET", "/metrics", &looking), 200, "the browser keeps the answer from it");
    }

    /// The cookie that a browser sends after it has logged in with this token.
    async fn session(access: &Access, token: &str) -> String {
        let (_, cookie) = access.log_in(token.as_bytes(), &HeaderMap::new(), None).await.unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// What a login with this token is answered.
    async fn login(access: &Access, token: &[u8]) -> u16 {
        let done = access.log_in(token, &HeaderMap::new(), None).await;
        done.map_or_else(|problem| problem.status().as_u16(), |_| 200)
    }

    #[tokio::test]
    async fn a_session_is_worth_its_token_on_pages_and_nothing_on_the_api() {
        let access = three();
        let (viewer, operator) = (session(&access, "v").await, session(&access, "o").await);
        let ours = ("sec-fetch-site", "same-origin");
        for (method, path, expected) in [
            ("GET", "/letters", [200, 200]),
            ("POST", "/operations", [403, 200]),
            ("POST", "/logout", [200, 200]),
            ("GET", "/api/v1/dead-letters", [401, 401]),
            ("POST", "/api/v1/redrives", [401, 401]),
            ("GET", "/metrics", [401, 401]),
        ] {
            for (cookie, expected) in [&viewer, &operator].into_iter().zip(expected) {
                let headers = [("cookie", cookie.as_str()), ours];
                assert_eq!(status(&access, method, path, &headers), expected, "{method} {path}");
            }
        }
    }

    #[tokio::test]
    async fn a_change_within_a_session_says_which_page_sent_it() {
        let access = three();
        let cookie = session(&access, "o").await;
        let cookie = ("cookie", cookie.as_str());
        for (header, expected) in [
            (("accept", "*/*"), 403),
            (("sec-fetch-site", "cross-site"), 403),
            (("origin", "https://evil.example"), 403),
            (("origin", "http://localhost:7070"), 200),
            (("sec-fetch-site", "same-origin"), 200),
        ] {
            let headers = [("host", "localhost:7070"), cookie, header];
            assert_eq!(status(&access, "POST", "/operations", &headers), expected, "{header:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_token_opens_no_session_and_another_site_cannot_log_anybody_in() {
        let access = three();
        for wrong in [b"x".as_slice(), b"", b" "] {
            assert_eq!(login(&access, wrong).await, 401, "{wrong:?}");
        }
        let foreign = [("host", "localhost:7070"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&access, "POST", "/login", &foreign), 403);
    }

    /// `printf %s "$TOKEN" | sha256sum` without a token gives the hash of nothing, and the login form sent nothing.
    #[tokio::test(start_paused = true)]
    async fn the_hash_of_nothing_lets_nobody_in() {
        let access = Access::new(vec![grant("ada", Role::Admin, "")]);
        assert_eq!(login(&access, b"").await, 401);
        for token in ["Bearer", "Bearer ", "Bearer  "] {
            assert_eq!(status(&access, "GET", "/metrics", &[("authorization", token)]), 401, "{token:?}");
        }
    }

    #[test]
    fn people_are_asked_who_they_are_and_programs_are_told() {
        let turned_away = |method, path, headers: &[(&str, &str)]| {
            let request = request(method, path, headers);
            let denied = three().admit(&request).unwrap_err();
            let response = turn_away(*denied.problem, &request);
            let to = response.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
            (response.status().as_u16(), to.unwrap_or_default())
        };
        let to_login = "/login?next=%2Fletters%3Fq%3Dcode%253A23505%2520x";
        assert_eq!(turned_away("GET", "/letters?q=code%3A23505%20x", &[]), (303, to_login.to_owned()));
        assert_eq!(turned_away("POST", "/operations", &[]), (303, "/login".to_owned()));
        for path in ["/api/v1/dead-letters", "/metrics", "/ui/stream"] {
            assert_eq!(turned_away("GET", path, &[]).0, 401, "{path}");
        }
        assert_eq!(turned_away("GET", "/", &[("authorization", "Bearer x")]).0, 401);
    }

    /// `/ready` answers everybody, and tells those with a token more: whoever guesses could guess there, unseen.
    #[test]
    fn a_wrong_token_is_a_failure_also_where_none_is_needed() {
        let stranger =
            |path: &str, headers: &[(&str, &str)]| match three().admit(&request("GET", path, headers)) {
                Ok(admitted) => admitted.stranger,
                Err(denied) => denied.stranger,
            };
        let wrong = [("authorization", "Bearer x")];
        assert_eq!(stranger("/api/v1/ready", &wrong), Some(Reason::Unknown));
        assert_eq!(stranger("/metrics", &wrong), Some(Reason::Unknown));
        assert_eq!(stranger("/metrics", &[]), Some(Reason::Missing));
        assert_eq!(stranger("/api/v1/ready", &[]), None, "a probe needs no token");
        assert_eq!(stranger("/metrics", &[("authorization", "Bearer v")]), None);
    }
}
