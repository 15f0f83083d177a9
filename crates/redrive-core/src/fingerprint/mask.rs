//! Masking: the values in a message become placeholders, so that what is left names the problem.
//!
//! | in the message | masked |
//! |---|---|
//! | numbers, versions, dates, times, IPv4 addresses and ports: digits, joined by `. , : - / + T` | `<n>` |
//! | UUIDs, hex ids, IPv6 and MAC addresses, ids that mix letters and digits, long base64 | `<n>` |
//! | text in `'…'`, `"…"` or `` `…` `` | `<s>` |
//!
//! Numbers and ids share a placeholder because nobody can tell them apart: a hex id may happen to
//! consist of digits alone, and would then form a group of its own.
//!
//! **Masking is idempotent.** Three rules make it so; keep them:
//! 1. Every ASCII digit ends up in a placeholder, and nothing outside quotes is masked that has no digit.
//!    So in a masked message only quotes could be masked once more.
//! 2. Whether a quote opens depends only on what is before it (not a letter, digit or backslash), and a
//!    placeholder counts as the kind of text that it stands for.
//! 3. A quote that opens but is never closed stays as it is; then no other of its kind follows.
//!
//! **Only the shape counts, never the value of a digit.** The work is linear in the length.

const VALUE: &str = "<n>";
const QUOTED: &str = "<s>";

/// The message with its values replaced by placeholders.
///
/// ```
/// use redrive_core::fingerprint::mask;
/// assert_eq!(mask("ORDER-123 not found in 10.0.0.7:5432"), "ORDER-<n> not found in <n>");
/// assert_eq!(mask("column \"total\" of 'orders'"), "column <s> of <s>");
/// ```
#[must_use]
pub fn mask(message: &str) -> String {
    let mut masked = String::with_capacity(message.len());
    let (mut rest, mut before) = (message, Before::Gap);
    while !rest.is_empty() {
        let token = next_token(rest, before);
        let (text, tail) = rest.split_at(token.len());
        match token {
            Token::Text(_) => masked.push_str(text),
            Token::Value(_) => masked.push_str(VALUE),
            // 'it''s' is two quoted parts in a row, and one value.
            Token::Quoted(_) if masked.ends_with(QUOTED) => {}
            Token::Quoted(_) => masked.push_str(QUOTED),
        }
        before = token.leaves(text);
        rest = tail;
    }
    masked
}

/// What the message holds next; the number is its length in bytes, never zero.
#[derive(Clone, Copy)]
enum Token {
    Text(usize),
    Value(usize),
    Quoted(usize),
}

impl Token {
    const fn len(self) -> usize {
        match self {
            Self::Text(len) | Self::Value(len) | Self::Quoted(len) => len,
        }
    }

    /// What the next token has before it.
    fn leaves(self, text: &str) -> Before {
        match self {
            Self::Text(_) => text.chars().next_back().map_or(Before::Gap, Before::after),
            Self::Value(_) => Before::Word,
            Self::Quoted(_) => Before::Gap,
        }
    }
}

/// What stands before a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The beginning, a space, most punctuation.
    Gap,
    /// Punctuation that base64 uses too, so that an encoded value may have begun earlier.
    Joint,
    /// A letter, a digit, a masked value.
    Word,
    /// A backslash: a quote after it neither opens nor closes.
    Escape,
}

impl Before {
    fn after(char: char) -> Self {
        match char {
            '\\' => Self::Escape,
            '+' | '/' | '-' | '_' => Self::Joint,
            _ if char.is_alphanumeric() => Self::Word,
            _ => Self::Gap,
        }
    }
}

fn next_token(rest: &str, before: Before) -> Token {
    placeholder(rest)
        .or_else(|| quoted(rest, before))
        .or_else(|| value(rest, before))
        .unwrap_or_else(|| Token::Text(text(rest)))
}

/// A placeholder of an earlier masking.
fn placeholder(rest: &str) -> Option<Token> {
    if rest.starts_with(VALUE) {
        return Some(Token::Value(VALUE.len()));
    }
    rest.starts_with(QUOTED).then_some(Token::Quoted(QUOTED.len()))
}

/// After a letter it is an apostrophe: `can't`.
fn quoted(rest: &str, before: Before) -> Option<Token> {
    let quote = rest.chars().next().filter(|char| matches!(char, '\'' | '"' | '`'))?;
    if matches!(before, Before::Word | Before::Escape) {
        return None;
    }
    let closes = |at: &usize| !rest[..*at].ends_with('\\');
    let end = rest.match_indices(quote).map(|(at, _)| at).skip(1).find(closes)?;
    Some(Token::Quoted(end + 1))
}

/// A value, together with the numbers that are joined to it: `1.5`, `10:30:00`, `2025-01-31`.
fn value(rest: &str, before: Before) -> Option<Token> {
    let starts_word = before != Before::Word;
    let len = starts_word.then(|| opaque(rest, before)).flatten().or_else(|| some(digits(rest)))?;
    Some(Token::Value(len + joined_numbers(&rest[len..])))
}

/// An id or address of some kind, at the start of a word.
fn opaque(rest: &str, before: Before) -> Option<usize> {
    let encoded = if before == Before::Gap { base64(rest) } else { None };
    encoded.or_else(|| uuid(rest)).or_else(|| address(rest)).or_else(|| id(rest))
}

/// 32 characters or more in which capitals, small letters and digits alternate as in no word or path.
fn base64(rest: &str) -> Option<usize> {
    let run = prefix(rest, |byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte));
    let count = |class: fn(&u8) -> bool| run.bytes().filter(class).count();
    let mixed = count(u8::is_ascii_digit) > 0
        && 6 * count(u8::is_ascii_uppercase) >= run.len()
        && 6 * count(u8::is_ascii_lowercase) >= run.len();
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let changes = run.as_bytes().windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    let padding = prefix(&rest[run.len()..], |byte| byte == b'=').len();
    (run.len() >= 32 && mixed && 5 * changes >= 2 * run.len()).then_some(run.len() + padding)
}

/// `8-4-4-4-12` hexadecimal digits.
fn uuid(rest: &str) -> Option<usize> {
    const LEN: usize = 36;
    let text = rest.get(..LEN)?;
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (text.bytes().enumerate().all(fits) && has_digit(text) && ends_word(&rest[LEN..])).then_some(LEN)
}

/// IPv6, MAC and the like: hexadecimal digits with two colons or more.
fn address(rest: &str) -> Option<usize> {
    /// The longest IPv6 address; a limit, so that the search stays linear.
    const LONGEST: usize = 45;
    if !rest.starts_with("::") && !rest.starts_with(|char: char| char.is_ascii_hexdigit()) {
        return None;
    }
    let fits = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let len = rest.bytes().take(LONGEST).take_while(fits).count();
    // Punctuation after it is not part of it: "fe80::1: refused".
    let text = rest[..len].trim_end_matches([':', '.']);
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    (colons >= 2 && has_digit(text) && ends_word(&rest[text.len()..])).then_some(text.len())
}

/// A word that mixes letters and digits as ids do: hexadecimal from 8 characters on, `0x…`, or with
/// digits in three places.
fn id(rest: &str) -> Option<usize> {
    let word = prefix(rest, |byte| byte.is_ascii_alphanumeric());
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_id = (word.len() >= 8 && hex(word))
        || word.split_once('x').is_some_and(|(zero, tail)| zero.len() == 1 && has_digit(zero) && hex(tail))
        || word.split(|char: char| !char.is_ascii_digit()).filter(|digits| !digits.is_empty()).count() >= 3;
    (is_id && has_digit(word)).then_some(word.len())
}

fn joined_numbers(rest: &str) -> usize {
    let mut len = 0;
    while let Some(more) = joined_number(&rest[len..]) {
        len += more;
    }
    len
}

/// A joint and a number. What goes on with a letter is not a number but perhaps an id, as in
/// `00-4bf92f35`; only a fraction may have a unit (`1.5ms`) and a date a time (`T`, `Z`).
fn joined_number(rest: &str) -> Option<usize> {
    let joint = rest.chars().next().filter(|char| ".,:-/+T".contains(*char))?;
    let len = 1 + some(digits(&rest[1..]))?;
    let tail = &rest[len..];
    (matches!(joint, '.' | ',') || ends_word(tail) || tail.starts_with(['T', 'Z'])).then_some(len)
}

/// The letters of a word up to its next digit, or one character of anything else.
fn text(rest: &str) -> usize {
    let letters = prefix(rest, |byte| byte.is_ascii_alphabetic()).len();
    some(letters).or_else(|| rest.chars().next().map(char::len_utf8)).unwrap_or(rest.len())
}

fn digits(rest: &str) -> usize {
    prefix(rest, |byte| byte.is_ascii_digit()).len()
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn ends_word(rest: &str) -> bool {
    !rest.starts_with(|char: char| char.is_alphanumeric())
}

fn some(len: usize) -> Option<usize> {
    (len > 0).then_some(len)
}

/// The longest beginning of ASCII bytes that all fit.
fn prefix(rest: &str, fits: impl Fn(u8) -> bool) -> &str {
    let len = rest.bytes().take_while(|byte| byte.is_ascii() && fits(*byte)).count();
    &rest[..len]
}

#[cfg(test)]
mod tests;
