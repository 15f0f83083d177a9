//! I/O errors, by [`ErrorKind`] and by the name that is stored for it.

use std::io::ErrorKind;

use crate::failure::Class;

/// The name of a kind that this table does not know.
const UNKNOWN: &str = "Other";

/// Kind, stored name, class. The name is written out because `Debug` promises no stable text.
const TABLE: [(ErrorKind, &str, Class); 38] = [
    // The network.
    (ErrorKind::ConnectionRefused, "ConnectionRefused", Class::Transient),
    (ErrorKind::ConnectionReset, "ConnectionReset", Class::Transient),
    (ErrorKind::ConnectionAborted, "ConnectionAborted", Class::Transient),
    (ErrorKind::NotConnected, "NotConnected", Class::Transient),
    (ErrorKind::BrokenPipe, "BrokenPipe", Class::Transient),
    (ErrorKind::HostUnreachable, "HostUnreachable", Class::Transient),
    (ErrorKind::NetworkUnreachable, "NetworkUnreachable", Class::Transient),
    (ErrorKind::NetworkDown, "NetworkDown", Class::Transient),
    (ErrorKind::AddrInUse, "AddrInUse", Class::Transient),
    (ErrorKind::AddrNotAvailable, "AddrNotAvailable", Class::Transient),
    (ErrorKind::TimedOut, "TimedOut", Class::Transient),
    // The other side hung up in mid-answer.
    (ErrorKind::UnexpectedEof, "UnexpectedEof", Class::Transient),
    (ErrorKind::WriteZero, "WriteZero", Class::Transient),
    // Somebody else is in the way.
    (ErrorKind::Interrupted, "Interrupted", Class::Transient),
    (ErrorKind::WouldBlock, "WouldBlock", Class::Transient),
    (ErrorKind::ResourceBusy, "ResourceBusy", Class::Transient),
    (ErrorKind::ExecutableFileBusy, "ExecutableFileBusy", Class::Transient),
    (ErrorKind::Deadlock, "Deadlock", Class::Transient),
    // The machine is full or ill: every event fails alike until that is mended.
    (ErrorKind::OutOfMemory, "OutOfMemory", Class::Transient),
    (ErrorKind::StorageFull, "StorageFull", Class::Transient),
    (ErrorKind::QuotaExceeded, "QuotaExceeded", Class::Transient),
    (ErrorKind::ReadOnlyFilesystem, "ReadOnlyFilesystem", Class::Transient),
    (ErrorKind::StaleNetworkFileHandle, "StaleNetworkFileHandle", Class::Transient),
    // Configuration (a command that is not installed) or data (a file the event names)? Unknown, so
    // retried to the limit and never taken for poison by a bisect.
    (ErrorKind::NotFound, "NotFound", Class::Unclassified),
    (ErrorKind::PermissionDenied, "PermissionDenied", Class::Unclassified),
    // The content.
    (ErrorKind::InvalidData, "InvalidData", Class::Malformed),
    // The request.
    (ErrorKind::InvalidInput, "InvalidInput", Class::Permanent),
    (ErrorKind::InvalidFilename, "InvalidFilename", Class::Permanent),
    (ErrorKind::ArgumentListTooLong, "ArgumentListTooLong", Class::Permanent),
    (ErrorKind::FileTooLarge, "FileTooLarge", Class::Permanent),
    (ErrorKind::AlreadyExists, "AlreadyExists", Class::Permanent),
    (ErrorKind::IsADirectory, "IsADirectory", Class::Permanent),
    (ErrorKind::NotADirectory, "NotADirectory", Class::Permanent),
    (ErrorKind::DirectoryNotEmpty, "DirectoryNotEmpty", Class::Permanent),
    (ErrorKind::CrossesDevices, "CrossesDevices", Class::Permanent),
    (ErrorKind::TooManyLinks, "TooManyLinks", Class::Permanent),
    (ErrorKind::NotSeekable, "NotSeekable", Class::Permanent),
    (ErrorKind::Unsupported, "Unsupported", Class::Permanent),
];

/// The class of a failure of this kind; a kind that says nothing is unclassified.
#[must_use]
pub fn classify(kind: ErrorKind) -> Class {
    classify_name(name(kind))
}

/// The class of a failure whose kind was stored under this name.
#[must_use]
pub(super) fn classify_name(name: &str) -> Class {
    TABLE.iter().find(|row| row.1 == name).map_or(Class::Unclassified, |row| row.2)
}

/// The stable name of a kind, as `Code::Io` keeps it.
#[must_use]
pub fn name(kind: ErrorKind) -> &'static str {
    TABLE.iter().find(|row| row.0 == kind).map_or(UNKNOWN, |row| row.1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_is_found_again_by_its_name() {
        for (kind, text, class) in TABLE {
            assert_eq!((name(kind), classify(kind), classify_name(text)), (text, class, class));
            assert_eq!(format!("{kind:?}"), text);
        }
        assert_eq!(TABLE.iter().map(|row| row.1).collect::<HashSet<_>>().len(), TABLE.len());
    }

    #[test]
    fn a_full_disk_is_not_the_events_fault() {
        assert_eq!(classify(ErrorKind::StorageFull), Class::Transient);
        assert_eq!(classify(ErrorKind::ReadOnlyFilesystem), Class::Transient);
    }

    #[test]
    fn an_unknown_kind_is_unclassified_and_has_a_name() {
        assert_eq!(name(ErrorKind::Other), "Other");
        assert_eq!(classify(ErrorKind::Other), Class::Unclassified);
        assert_eq!(classify_name("NoSuchKind"), Class::Unclassified);
    }
}
