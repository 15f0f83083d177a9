//! A Java exception, as the headers of Spring Kafka tell it: what is at the bottom of it, and what that says.
//!
//! Spring wraps what a listener threw: `Listener method 'public void …' threw exception` is the same for every failure of
//! a listener, and groups would be of listeners, not of causes. Older versions name only the next wrapper as the cause;
//! then the stack trace has the rest.

/// The exceptions that Spring wraps around what a listener threw.
const WRAPPERS: [&str; 3] = [
    "org.springframework.kafka.listener.ListenerExecutionFailedException",
    "org.springframework.kafka.listener.TimestampedException",
    "org.springframework.kafka.listener.adapter.ListenerExecutionFailedException",
];

/// What the headers of a letter say of an exception.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exception<'a> {
    pub(crate) class: Option<&'a str>,
    pub(crate) cause: Option<&'a str>,
    pub(crate) message: Option<&'a str>,
    pub(crate) trace: Option<&'a str>,
}

impl Exception<'_> {
    /// The class of what went wrong, and its message. None where the headers say nothing of an exception.
    pub(crate) fn failure(&self) -> Option<(String, Option<String>)> {
        self.class.or(self.cause).or(self.message)?;
        let traced = self.traced();
        let named = [self.cause, traced.map(|(class, _)| class), self.class];
        let kind =
            named.into_iter().flatten().find(|class| !is_wrapper(class)).or(self.class).unwrap_or("Unknown");
        let said = self.message.and_then(own_message);
        let of_trace = traced.filter(|(class, _)| *class == kind).and_then(|(_, message)| message);
        let message = said.or(of_trace).or(self.message);
        Some((kind.to_owned(), message.map(str::to_owned)))
    }

    /// The first exception of the stack trace that is no wrapper, and its message.
    fn traced(&self) -> Option<(&str, Option<&str>)> {
        let causes = self.trace?.lines().filter_map(|line| line.trim_start().strip_prefix("Caused by: "));
        let parted = causes.map(|line| match line.split_once(": ") {
            Some((class, message)) => (class, Some(message)),
            None => (line.trim_end(), None),
        });
        parted.into_iter().find(|(class, _)| !is_wrapper(class) && is_class(class))
    }
}

/// What follows the words of a wrapper; nothing where they are all there is.
fn own_message(message: &str) -> Option<&str> {
    let is_wrapped = ["Listener method '", "Listener failed"].iter().any(|words| message.starts_with(words));
    if !is_wrapped {
        return Some(message);
    }
    message.split_once("; ").map(|(_, own)| own.strip_prefix("nested exception is ").unwrap_or(own))
}

fn is_wrapper(class: &str) -> bool {
    WRAPPERS.contains(&class)
}

fn is_class(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || "._$".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "org.springframework.kafka.listener.ListenerExecutionFailedException: Listener method 'public void x()' threw exception\n\tat a.B.c(B.java:1)\nCaused by: org.springframework.kafka.listener.TimestampedException: Exception thrown at 2026\n\tat …\nCaused by: com.acme.OutOfStock: no stock\n\tat …\nCaused by: java.sql.SQLException: gone\n";

    fn failure(class: &str, cause: &str, message: &str, trace: &str) -> (String, Option<String>) {
        let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let exception = Exception {
            class: given(class),
            cause: given(cause),
            message: given(message),
            trace: given(trace),
        };
        exception.failure().unwrap()
    }

    fn told(kind: &str, message: &str) -> (String, Option<String>) {
        (kind.to_owned(), Some(message.to_owned()))
    }

    #[test]
    fn the_kind_is_what_the_listener_threw_and_no_wrapper() {
        let listener = "Listener method 'public void x()' threw exception";
        let [wrapper, timestamped, _] = WRAPPERS;
        let whole = format!("{listener}; no stock");
        assert_eq!(
            failure(wrapper, "com.acme.OutOfStock", &whole, ""),
            told("com.acme.OutOfStock", "no stock")
        );
        assert_eq!(failure(wrapper, timestamped, listener, TRACE), told("com.acme.OutOfStock", "no stock"));
        assert_eq!(failure(wrapper, "", listener, ""), told(wrapper, listener), "there is nothing else");
        assert_eq!(
            failure("java.lang.IllegalStateException", "", "a; b", ""),
            told("java.lang.IllegalStateException", "a; b")
        );
        assert_eq!(failure("", "", "boom", ""), told("Unknown", "boom"));
        let nested = "Listener failed; nested exception is com.acme.OutOfStock: no stock";
        assert_eq!(
            failure(wrapper, "com.acme.OutOfStock", nested, "").1.unwrap(),
            "com.acme.OutOfStock: no stock"
        );
    }

    #[test]
    fn a_letter_that_says_nothing_of_an_exception_has_none() {
        let nothing = Exception { class: None, cause: None, message: None, trace: Some("Caused by: x") };
        assert_eq!(nothing.failure(), None);
    }
}
