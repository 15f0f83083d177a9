//! `[server]`: where redrive listens and keeps its own state.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::database::DatabaseUrl;
use super::document::Node;
use super::environment::Environment;
use super::identifier::SchemaName;
use super::section::Section;
use super::setting::{Setting, Wrong, choice, text};
use super::size::ByteSize;

/// The server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address and port of HTTP.
    pub listen: SocketAddr,
    /// The folder of embedded state, spool and journals.
    pub data_dir: PathBuf,
    /// The default database of every pipeline, and the one of the console.
    pub database: DatabaseUrl,
    /// The schema of redrive's own tables, in every database that has schemas.
    pub schema: Option<SchemaName>,
    /// Who may call the API.
    pub tokens: Vec<Token>,
    /// How long a stop may take.
    pub shutdown_deadline: Duration,
    /// The largest request body.
    pub max_body: ByteSize,
}

/// Someone who may call the API.
#[derive(Debug, Clone)]
pub struct Token {
    /// Who it is, for the audit log.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The hash of their token.
    pub sha256: TokenHash,
}

choice! {
    /// What a token allows; each role includes the ones before it.
    #[derive(PartialOrd, Ord)]
    Role {
        /// May look.
        Viewer = "viewer",
        /// May redrive and resolve.
        Operator = "operator",
        /// May do everything.
        Admin = "admin",
    }
}

/// The SHA-256 of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

/// What `sha256sum` prints when the variable with the token was empty.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl TokenHash {
    /// The hash, for a comparison in constant time.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenHash(***)")
    }
}

impl Setting for TokenHash {
    fn kind() -> String {
        "64 hex digits".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "64 hex digits: the SHA-256 of the token (printf %s \"$TOKEN\" | sha256sum)";
        let written = text(node, EXPECTED)?;
        if written.eq_ignore_ascii_case(OF_NOTHING) {
            return Err(Wrong::because(
                "found the SHA-256 of an empty token, expected that of a token: was $TOKEN set?",
            ));
        }
        from_hex(written).map(Self).ok_or_else(|| Wrong::expected(EXPECTED))
    }

    fn is_sensitive(_: &Node) -> bool {
        true
    }
}

impl ServerConfig {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        section.about("Where redrive listens, and where it keeps its own state.");
        let listen = section.get(
            "listen",
            "127.0.0.1:7070",
            "Address and port of HTTP. Anything but loopback needs `tokens`.",
        );
        let data_dir: PathBuf = section.get(
            "data-dir",
            "./redrive-data",
            "Folder of embedded state, spool and journals; created when missing. Relative paths start \
             in the working directory.",
        );
        let server = Self {
            listen,
            database: section.derived(
                "database",
                DatabaseUrl::of_file(&data_dir.join("redrive.db")),
                "`sqlite:DATA-DIR/redrive.db`",
                "The console's database, and the default of every pipeline: `sqlite:PATH`, \
                 `postgres://…` or `mysql://…`; `\"env:NAME\"` takes it from a variable.",
            ),
            schema: section.optional(
                "schema",
                "The schema of redrive's own tables (`redrive_…`) on Postgres, on MySQL the database of them; made if \
                 it is missing. Without it they are in the current one, and `redrive_request` beside the pipeline's \
                 table.",
            ),
            data_dir,
            tokens: section.list("tokens", "Who may call the API.", Token::read),
            shutdown_deadline: section.get(
                "shutdown-deadline",
                "10s",
                "How long a stop may take before requests in flight are given up.",
            ),
            max_body: section.get("max-body", "8MiB", "The largest request body; larger ones get 413."),
        };
        server.refuse_open_door(section);
        server.refuse_equal_tokens(section);
        server
    }

    fn refuse_open_door(&self, section: &mut Section<'_>) {
        if !self.listen.ip().to_canonical().is_loopback() && self.tokens.is_empty() {
            section.refuse(
                "listen",
                format!(
                    "found {}, which other machines can reach, but no valid token in `tokens`; expected one, or a \
                     loopback address such as \"127.0.0.1:7070\"",
                    self.listen
                ),
            );
        }
    }

    fn refuse_equal_tokens(&self, section: &mut Section<'_>) {
        let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for token in &self.tokens {
            if !hashes.insert(token.sha256.as_bytes()) {
                section.refuse(
                    "tokens",
                    format!(
                        "found the token of \"{}\" under another name as well, expected a token of its own for each: \
                         nobody could tell them apart",
                        token.name.escape_debug()
                    ),
                );
            }
            if !names.insert(&token.name) {
                section.refuse(
                    "tokens",
                    format!(
                        "found two tokens named \"{}\", expected a name of its own for each",
                        token.name.escape_debug()
                    ),
                );
            }
        }
    }
}

impl Token {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let name = section.required("name", "Who it is, for the audit log.");
        let role = section.required("role", "What they may do; each role includes the ones before it.");
        let sha256 = section.required("sha256", "The SHA-256 of their token, in hex.");
        Some(Self { name: name?, role: role?, sha256: sha256? })
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit)).collect();
    (text.len() == 64).then_some(bytes)?.try_into().ok()
}
