//! S3 error codes, with the HTTP status for answers that carry no code (HEAD, proxies).

use crate::failure::Class;

/// The class of a failure with this S3 error code; an unknown or empty code is judged by the status.
#[must_use]
pub fn classify(code: &str, status: Option<u16>) -> Class {
    if is_load(code) || is_configuration(code) || is_transfer(code) {
        return Class::Transient;
    }
    if is_request(code) {
        return Class::Permanent;
    }
    status.map_or(Class::Unclassified, classify_status)
}

/// The store is busy, slow or ill.
fn is_load(code: &str) -> bool {
    matches!(
        code,
        "SlowDown"
            | "InternalError"
            | "ServiceUnavailable"
            | "RequestTimeout"
            | "Throttling"
            | "ThrottlingException"
            | "RequestThrottled"
            | "RequestLimitExceeded"
            | "TooManyRequests"
            | "BandwidthLimitExceeded"
            | "OperationAborted"
            | "ConditionalRequestConflict"
            | "Busy"
    )
}

/// Refused at the door: credentials, clock, region, bucket, quota.
///
/// None of this is the batch's fault, and all of it is mended by a person while the batch waits. Called
/// permanent, it loses data: Vector #13455 dropped every batch that met a 403.
fn is_configuration(code: &str) -> bool {
    matches!(
        code,
        "AccessDenied"
            | "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "InvalidToken"
            | "TokenRefreshRequired"
            | "InvalidSecurity"
            | "CredentialsNotSupported"
            | "AccountProblem"
            | "AllAccessDisabled"
            | "NotSignedUp"
            | "InvalidPayer"
            | "RequestTimeTooSkewed"
            | "RequestExpired"
            | "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "TemporaryRedirect"
            | "Redirect"
            | "NoSuchBucket"
            | "InvalidBucketName"
            | "InvalidBucketState"
            | "QuotaExceeded"
    )
}

/// Damaged or cut on the way; sending it again is the cure. An upload that expired starts afresh.
fn is_transfer(code: &str) -> bool {
    matches!(code, "BadDigest" | "IncompleteBody" | "XAmzContentSHA256Mismatch" | "NoSuchUpload")
}

/// This very request can never succeed.
fn is_request(code: &str) -> bool {
    matches!(
        code,
        "EntityTooLarge"
            | "EntityTooSmall"
            | "KeyTooLongError"
            | "MetadataTooLarge"
            | "MaxMessageLengthExceeded"
            | "InvalidArgument"
            | "InvalidRequest"
            | "InvalidDigest"
            | "InvalidObjectState"
            | "InvalidPart"
            | "InvalidPartOrder"
            | "InvalidStorageClass"
            | "InvalidURI"
            | "MalformedXML"
            | "MethodNotAllowed"
            | "MissingContentLength"
            | "NoSuchKey"
            | "NotImplemented"
            | "PreconditionFailed"
    )
}

fn classify_status(status: u16) -> Class {
    match status {
        408 | 429 | 500..=599 => Class::Transient,
        // Redirected, unauthorised, forbidden, no such bucket: as in `is_configuration`.
        300..=399 | 401 | 403 | 404 => Class::Transient,
        400..=499 => Class::Permanent,
        _ => Class::Unclassified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_transient() {
        for code in ["SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted"]
        {
            assert_eq!(classify(code, None), Class::Transient, "{code}");
        }
    }

    /// Vector #13455: a batch answered with 403 was dropped.
    #[test]
    fn a_batch_refused_for_credentials_is_kept() {
        for code in
            ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "NoSuchBucket"]
        {
            assert_eq!(classify(code, Some(403)), Class::Transient, "{code}");
        }
        assert_eq!(classify("", Some(403)), Class::Transient);
        assert_eq!(classify("SomethingNewAboutTokens", Some(401)), Class::Transient);
    }

    #[test]
    fn a_request_that_can_never_succeed_is_permanent() {
        for code in ["EntityTooLarge", "KeyTooLongError", "InvalidArgument", "MalformedXML"] {
            assert_eq!(classify(code, Some(400)), Class::Permanent, "{code}");
        }
    }

    #[test]
    fn an_unknown_code_is_judged_by_its_status() {
        assert_eq!(classify("New", Some(503)), Class::Transient);
        assert_eq!(classify("New", Some(400)), Class::Permanent);
        assert_eq!(classify("New", Some(200)), Class::Unclassified);
        assert_eq!(classify("New", None), Class::Unclassified);
    }
}
