//! Exit statuses of a command handler: 0 done, 75 transient, anything else permanent.

use crate::failure::Class;

/// `EX_TEMPFAIL` of sysexits.h: "try again later".
const TEMPORARY_FAILURE: i32 = 75;

/// The class of a command that ended with this status, or none when it succeeded.
///
/// `None` is a command that a signal killed; a negative status is the same, as some libraries write it.
/// That is unclassified: a deployment that stops the command will not happen again, a payload that
/// drives it out of memory will, so it is retried, but not without end.
#[must_use]
pub const fn classify(status: Option<i32>) -> Option<Class> {
    match status {
        Some(0) => None,
        Some(TEMPORARY_FAILURE) => Some(Class::Transient),
        None | Some(..0) => Some(Class::Unclassified),
        Some(_) => Some(Class::Permanent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_failure_and_75_is_transient() {
        assert_eq!(classify(Some(0)), None);
        assert_eq!(classify(Some(75)), Some(Class::Transient));
    }

    #[test]
    fn any_other_status_is_permanent() {
        for status in [1, 2, 64, 74, 76, 127, 255, i32::MAX] {
            assert_eq!(classify(Some(status)), Some(Class::Permanent), "{status}");
        }
    }

    #[test]
    fn a_killed_command_is_retried_but_not_without_end() {
        for status in [None, Some(-9), Some(i32::MIN)] {
            assert_eq!(classify(status), Some(Class::Unclassified), "{status:?}");
        }
    }
}
