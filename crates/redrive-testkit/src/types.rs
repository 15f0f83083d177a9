//! Types of columns, and JSON values for them: what each store makes of a value, and what it refuses.

use crate::{Backend, Client};

/// A type, a JSON value, and what is to be seen: in the column `v`, or in the reason of a refusal.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The type, as a table declares it.
    pub declared: &'static str,
    /// A JSON value.
    pub json: &'static str,
    /// How [`shown`] shows it, or a part of the reason why it is refused.
    pub expected: &'static str,
}

impl Sample {
    const fn new(declared: &'static str, json: &'static str, expected: &'static str) -> Self {
        Self { declared, json, expected }
    }
}

/// Values that arrive.
#[must_use]
pub const fn accepted(backend: Backend) -> &'static [Sample] {
    match backend {
        Backend::Postgres => POSTGRES,
        Backend::MySql => MYSQL,
        Backend::Sqlite => SQLITE,
    }
}

/// Values that the column cannot hold.
#[must_use]
pub const fn refused(backend: Backend) -> &'static [Sample] {
    match backend {
        Backend::Postgres => REFUSED_BY_POSTGRES,
        Backend::MySql => REFUSED_BY_MYSQL,
        Backend::Sqlite => REFUSED_BY_SQLITE,
    }
}

/// Makes the types that the samples need beyond those of the database.
pub async fn prepare(client: &mut Client) {
    if matches!(client, Client::Postgres(_)) {
        client.run("CREATE TYPE mood AS ENUM ('happy', 'sad')").await;
        client.run("CREATE DOMAIN short_name AS VARCHAR(3) CHECK (VALUE <> 'bad')").await;
    }
}

/// The column `v` of the first row as a person would see it; bytes of MySQL in hexadecimal digits.
pub async fn shown(client: &mut Client, table: &str, declared: &str) -> Option<String> {
    let value = match client {
        Client::Sqlite(_) => "typeof(v) || ' ' || v",
        Client::MySql(_) if declared.contains("BINARY") || declared.contains("BLOB") => "HEX(v)",
        Client::MySql(_) if declared.contains("BIT") => "v + 0",
        Client::Postgres(_) | Client::MySql(_) => "v",
    };
    let rows = client.rows(&format!("SELECT {value} FROM {table}")).await;
    rows.into_iter().next().and_then(|row| row.into_iter().next().flatten())
}

const UUID: &str = r#""6f2e6f0e-4c2f-4e0b-9c68-0a2f4b1b7a11""#;
const UUID_TEXT: &str = "6f2e6f0e-4c2f-4e0b-9c68-0a2f4b1b7a11";

const POSTGRES: &[Sample] = &[
    Sample::new("SMALLINT", "-32768", "-32768"),
    Sample::new("SMALLINT", "32767", "32767"),
    Sample::new("INTEGER", "2147483647", "2147483647"),
    Sample::new("INTEGER", "\"42\"", "42"),
    Sample::new("BIGINT", "-9223372036854775808", "-9223372036854775808"),
    Sample::new("BIGINT", "9223372036854775807", "9223372036854775807"),
    Sample::new("NUMERIC(12, 2)", "19.99", "19.99"),
    Sample::new("NUMERIC(12, 2)", "9999999999.99", "9999999999.99"),
    Sample::new("NUMERIC(12, 2)", "1.005", "1.01"),
    Sample::new("NUMERIC", "12345678901234567890.123456789", "12345678901234567890.123456789"),
    Sample::new("NUMERIC(20, 0)", "18446744073709551615", "18446744073709551615"),
    Sample::new("DOUBLE PRECISION", "1.5e3", "1500"),
    Sample::new("REAL", "0.25", "0.25"),
    Sample::new("UUID", UUID, UUID_TEXT),
    Sample::new("TEXT", r#""é\\'\t""#, "é\\'\t"),
    Sample::new("TEXT", "1.50", "1.50"),
    Sample::new("TEXT", "true", "true"),
    Sample::new("TEXT", r#"{"a": 1}"#, r#"{"a": 1}"#),
    Sample::new("VARCHAR(40)", "false", "false"),
    Sample::new("VARCHAR(3)", "\"éàü\"", "éàü"),
    Sample::new("CHAR(3)", "\"abc\"", "abc"),
    Sample::new("JSON", r#"{"a": [1, "x"]}"#, r#"{"a": [1, "x"]}"#),
    Sample::new("JSONB", r#"{"a":1}"#, r#"{"a": 1}"#),
    Sample::new("JSONB", "\"a text\"", "\"a text\""),
    Sample::new("JSONB", "\"42\"", "\"42\""),
    Sample::new("JSONB", "42", "42"),
    Sample::new("JSONB", "true", "true"),
    Sample::new("BYTEA", r#""é\\""#, r"\xc3a95c"),
    Sample::new("BYTEA", r#""\\x41""#, r"\x5c783431"),
    Sample::new("BYTEA", "7", r"\x37"),
    Sample::new("mood", "\"happy\"", "happy"),
    Sample::new("short_name", "\"abc\"", "abc"),
    Sample::new("BOOLEAN", "true", "t"),
    Sample::new("BOOLEAN", "\"false\"", "f"),
    Sample::new("TIMESTAMP", "\"2026-01-02T03:04:05.123Z\"", "2026-01-02 03:04:05.123"),
    Sample::new("TIMESTAMP", "\"2026-01-02T05:04:05.5+02:00\"", "2026-01-02 03:04:05.5"),
    Sample::new("TIMESTAMP", "\"2026-01-02 03:04:05\"", "2026-01-02 03:04:05"),
    Sample::new("TIMESTAMP", "1767323045123", "2026-01-02 03:04:05.123"),
    Sample::new("TIMESTAMPTZ", "\"2026-01-02T05:04:05+02:00\"", "2026-01-02 03:04:05+00"),
    Sample::new("TIMESTAMPTZ", "\"2026-01-02T03:04:05\"", "2026-01-02 03:04:05+00"),
    Sample::new("TIMESTAMPTZ", "\"2026-01-02T03:04:05.123456789Z\"", "2026-01-02 03:04:05.123457+00"),
    Sample::new("TIMESTAMPTZ", "1767323045123", "2026-01-02 03:04:05.123+00"),
    Sample::new("TIMESTAMPTZ", "\"infinity\"", "infinity"),
    Sample::new("DATE", "\"2026-01-02\"", "2026-01-02"),
    Sample::new("DATE", "1767323045123", "2026-01-02"),
    Sample::new("INET", "\"10.0.0.1\"", "10.0.0.1"),
];

const MYSQL: &[Sample] = &[
    Sample::new("TINYINT", "-128", "-128"),
    Sample::new("TINYINT UNSIGNED", "255", "255"),
    Sample::new("TINYINT UNSIGNED", "true", "1"),
    Sample::new("SMALLINT UNSIGNED", "65535", "65535"),
    Sample::new("MEDIUMINT", "-8388608", "-8388608"),
    Sample::new("INT", "-2147483648", "-2147483648"),
    Sample::new("INT UNSIGNED", "4294967295", "4294967295"),
    Sample::new("BIGINT", "-9223372036854775808", "-9223372036854775808"),
    Sample::new("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615"),
    Sample::new("DECIMAL(12, 2)", "19.99", "19.99"),
    Sample::new("DECIMAL(12, 2)", "9999999999.99", "9999999999.99"),
    Sample::new("DECIMAL(30, 9)", "12345678901234567890.123456789", "12345678901234567890.123456789"),
    Sample::new("DOUBLE", "1.5e3", "1500"),
    Sample::new("FLOAT", "0.25", "0.25"),
    Sample::new("BOOLEAN", "true", "1"),
    Sample::new("BOOLEAN", "false", "0"),
    Sample::new("BIT(1)", "true", "1"),
    Sample::new("BIT(1)", "false", "0"),
    Sample::new("UUID", UUID, UUID_TEXT),
    Sample::new("BINARY(16)", UUID, "6F2E6F0E4C2F4E0B9C680A2F4B1B7A11"),
    Sample::new("CHAR(36)", UUID, UUID_TEXT),
    Sample::new("VARCHAR(40)", r#""é\\'\t""#, "é\\'\t"),
    Sample::new("VARCHAR(3)", "\"éàü\"", "éàü"),
    Sample::new("TEXT", "true", "true"),
    Sample::new("TEXT", "1.50", "1.50"),
    Sample::new("LONGTEXT", r#"{"a": 1}"#, r#"{"a": 1}"#),
    Sample::new("JSON", r#"{"a": [1, "x"]}"#, r#"{"a": [1, "x"]}"#),
    Sample::new("JSON", "\"a text\"", "\"a text\""),
    Sample::new("JSON", "\"42\"", "\"42\""),
    Sample::new("JSON", "true", "true"),
    Sample::new("BLOB", r#""é\\""#, "C3A95C"),
    Sample::new("VARBINARY(20)", "7", "37"),
    Sample::new("ENUM('happy', 'a,b', 'it''s')", "\"happy\"", "happy"),
    Sample::new("ENUM('happy', 'a,b', 'it''s')", "\"a,b\"", "a,b"),
    Sample::new("ENUM('happy', 'a,b', 'it''s')", "\"it's\"", "it's"),
    Sample::new("DATETIME(6)", "\"2026-01-02T03:04:05.123Z\"", "2026-01-02 03:04:05.123000"),
    Sample::new("DATETIME(6)", "\"2026-01-02T03:04:05.123456789Z\"", "2026-01-02 03:04:05.123456"),
    Sample::new("DATETIME", "\"2026-01-02T05:04:05+02:00\"", "2026-01-02 03:04:05"),
    Sample::new("DATETIME", "\"2026-01-02 03:04:05\"", "2026-01-02 03:04:05"),
    Sample::new("DATETIME(3)", "1767323045123", "2026-01-02 03:04:05.123"),
    Sample::new("TIMESTAMP NULL", "\"2026-01-02T05:04:05+02:00\"", "2026-01-02 03:04:05"),
    Sample::new("TIMESTAMP NULL", "1767323045123", "2026-01-02 03:04:05"),
    Sample::new("DATE", "\"2026-01-02\"", "2026-01-02"),
    Sample::new("DATE", "1767323045123", "2026-01-02"),
    Sample::new("TIME", "\"03:04:05\"", "03:04:05"),
];

const SQLITE: &[Sample] = &[
    Sample::new("INTEGER", "-9223372036854775808", "integer -9223372036854775808"),
    Sample::new("BIGINT", "9223372036854775807", "integer 9223372036854775807"),
    Sample::new("NUMERIC", "19.99", "real 19.99"),
    Sample::new("DECIMAL(12, 2)", "1234567890.25", "real 1234567890.25"),
    Sample::new("REAL", "0.25", "real 0.25"),
    Sample::new("DOUBLE", "1.5e3", "real 1500.0"),
    Sample::new("BOOLEAN", "true", "integer 1"),
    Sample::new("BOOLEAN", "false", "integer 0"),
    Sample::new("TEXT", r#""é\\'\t""#, "text é\\'\t"),
    Sample::new("TEXT", "1.50", "text 1.50"),
    Sample::new("VARCHAR(40)", "true", "text true"),
    Sample::new("", "\"anything\"", "text anything"),
    Sample::new("UUID", UUID, "text 6f2e6f0e-4c2f-4e0b-9c68-0a2f4b1b7a11"),
    Sample::new("JSON", r#"{"a": 1}"#, r#"text {"a": 1}"#),
    Sample::new("JSON", "\"a text\"", "text \"a text\""),
    Sample::new("BLOB", r#""é\\""#, "blob é\\"),
    Sample::new("DATETIME", "\"2026-01-02T05:04:05.123+02:00\"", "text 2026-01-02 03:04:05.123"),
    Sample::new("DATETIME", "\"2026-01-02 03:04:05\"", "text 2026-01-02 03:04:05"),
    Sample::new("TIMESTAMP", "1767323045123", "text 2026-01-02 03:04:05.123"),
    Sample::new("DATE", "\"2026-01-02\"", "text 2026-01-02"),
    Sample::new("DATE", "1767323045123", "text 2026-01-02"),
];

const REFUSED_BY_POSTGRES: &[Sample] = &[
    Sample::new("INTEGER", "\"many\"", "a whole number"),
    Sample::new("INTEGER", "1.5", "a whole number"),
    Sample::new("INTEGER", "2147483648", "from -2147483648 to 2147483647"),
    Sample::new("SMALLINT", "-32769", "from -32768 to 32767"),
    Sample::new("BIGINT", "9223372036854775808", "from -9223372036854775808 to 9223372036854775807"),
    Sample::new("NUMERIC(12, 2)", "\"x\"", "a number"),
    Sample::new("NUMERIC(12, 2)", "99999999999", "10 digits before the point"),
    Sample::new("UUID", "\"nope\"", "a UUID"),
    Sample::new("VARCHAR(3)", "\"four\"", "holds 3"),
    Sample::new("mood", "\"angry\"", "happy, sad"),
    Sample::new("BOOLEAN", "\"maybe\"", "true or false"),
    Sample::new("TIMESTAMP", "\"soon\"", "a time"),
    Sample::new("TIMESTAMPTZ", "\"2026-01-02T25:00:00Z\"", "a time"),
    Sample::new("DATE", "\"2026-13-01\"", "a date"),
];

const REFUSED_BY_MYSQL: &[Sample] = &[
    Sample::new("INT", "\"many\"", "a whole number"),
    Sample::new("INT", "1.5", "a whole number"),
    Sample::new("TINYINT", "128", "from -128 to 127"),
    Sample::new("INT UNSIGNED", "-1", "from 0 to 4294967295"),
    Sample::new("BIGINT UNSIGNED", "18446744073709551616", "from 0 to 18446744073709551615"),
    Sample::new("DECIMAL(12, 2)", "99999999999", "10 digits before the point"),
    Sample::new("UUID", "\"nope\"", "a UUID"),
    Sample::new("BINARY(16)", "\"nope\"", "a UUID"),
    Sample::new("VARCHAR(3)", "\"four\"", "holds 3"),
    Sample::new("ENUM('happy', 'sad')", "\"angry\"", "happy, sad"),
    Sample::new("ENUM('happy', 'sad')", "1", "happy, sad"),
    Sample::new("ENUM('happy', 'sad')", "\"1\"", "happy, sad"),
    Sample::new("DATETIME", "\"soon\"", "a time"),
    Sample::new("DATE", "\"2026-13-01\"", "a date"),
];

const REFUSED_BY_SQLITE: &[Sample] = &[
    Sample::new("INTEGER", "\"many\"", "a whole number"),
    Sample::new("INTEGER", "9223372036854775808", "from -9223372036854775808 to 9223372036854775807"),
    Sample::new("DECIMAL(20, 2)", "12345678901234567.89", "15 digits"),
    Sample::new("BOOLEAN", "\"maybe\"", "true or false"),
    Sample::new("DATETIME", "\"soon\"", "a time"),
];
