//! Settings of librdkafka, and what it says of those that it does not accept.
//!
//! Its messages repeat the value (`Invalid value "…" for configuration property`), and the binding appends it. A value
//! may be a secret, also one whose name is mistyped or that this build has no use for: so it appears in none of ours.

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

/// The shortest value that is looked for in a message: a shorter one is no secret, and part of many words.
const SHORTEST: usize = 3;
/// What librdkafka says of a setting that it was built without.
const UNSUPPORTED: &str = "not supported in this build: ";

/// A client cannot be made with its settings. Which one it is, and why; values do not appear.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RefusedSettings(String);

impl RefusedSettings {
    /// What this error says; `values` are those of the settings.
    pub fn new<'a>(error: &KafkaError, values: impl IntoIterator<Item = &'a str>) -> Self {
        Self(match error {
            KafkaError::ClientConfig(result, text, name, _) => refusal(*result, text, name),
            KafkaError::ClientCreation(text) => without(text.clone(), values),
            error => without(error.to_string(), values),
        })
    }
}

/// Whether librdkafka accepts this setting by itself. No client is made.
///
/// # Errors
/// [`RefusedSettings`] says why it does not.
pub fn check_property(name: &str, value: &str) -> Result<(), RefusedSettings> {
    let made = ClientConfig::new().set(name, value).create_native_config();
    made.map(drop).map_err(|error| match error {
        KafkaError::Nul(_) => RefusedSettings(format!("{name}: its name or its value has a zero byte")),
        error => RefusedSettings::new(&error, [value]),
    })
}

fn refusal(result: RDKafkaConfRes, text: &str, name: &str) -> String {
    if result == RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN {
        return format!("{name}: librdkafka has no such setting: correct its name");
    }
    match text.split_once(UNSUPPORTED) {
        Some((_, lacking)) => {
            let advice =
                if lacking.contains("OpenSSL") { ": build with the feature `kafka-tls`" } else { "" };
            format!(
                "{name}: this build has no use for it, since it is without what it needs ({lacking}){advice}"
            )
        }
        None => format!("{name}: librdkafka does not accept its value"),
    }
}

fn without<'a>(text: String, values: impl IntoIterator<Item = &'a str>) -> String {
    let mut values: Vec<&str> = values.into_iter().filter(|value| value.len() >= SHORTEST).collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values.into_iter().fold(text, |text, value| text.replace(value, "***"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Cluster;

    fn refused(name: &str, value: &str) -> String {
        check_property(name, value).unwrap_err().to_string()
    }

    /// A password whose name was mistyped was in the log, on the console, and in the answer of `/ready`.
    #[test]
    fn what_librdkafka_does_not_accept_is_named_without_its_value() {
        const SECRET: &str = "hunter2-hunter2";
        for name in ["sasl.pasword", "security.protocol", "session.timeout.ms", "ssl.cipher.suites\0"] {
            let said = refused(name, SECRET);
            assert!(!said.contains(SECRET) && said.contains(name.trim_end_matches('\0')), "{said}");
        }
        assert_eq!(
            refused("sasl.pasword", SECRET),
            "sasl.pasword: librdkafka has no such setting: correct its name"
        );
        assert_eq!(
            refused("session.timeout.ms", "soon"),
            "session.timeout.ms: librdkafka does not accept its value"
        );
        for (name, value) in
            [("session.timeout.ms", "6000"), ("partitioner", "murmur2_random"), ("client.id", "x")]
        {
            assert_eq!(check_property(name, value), Ok(()), "{name}");
        }
        // Accepted by itself; whether it fits the others only a client knows.
        let mut cluster = Cluster::at("127.0.0.1:9");
        cluster.properties.push(("sasl.mechanism".to_owned(), SECRET.to_owned()));
        cluster.properties.push(("security.protocol".to_owned(), "sasl_plaintext".to_owned()));
        let said = cluster.check().unwrap_err().to_string();
        assert!(!said.contains(SECRET), "{said}");
        assert_eq!(Cluster::at("127.0.0.1:9").check(), Ok(()));
    }

    #[test]
    fn what_this_build_lacks_is_said() {
        if let Err(refused) = check_property("ssl.key.password", "hunter2") {
            let said = refused.to_string();
            assert!(said.contains("ssl.key.password: this build") && said.contains("kafka-tls"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
