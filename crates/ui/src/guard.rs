//! Who is answered.
//!
//! A server on the loopback address is within reach of every page that the browser shows. So the address of everything holds a token
//! that only who started the server knows; the host must be this machine by its loopback names, so that no name that somebody else
//! lets point here is answered (DNS rebinding), and is named once; and a request that a browser makes for another page is refused.

use std::fs::File;
use std::io::{self, Read};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use pagelab_vocab::units::hexadecimal;

/// Bytes of a token.
const TOKEN_BYTES: usize = 24;

/// What requests must have.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    hosts: [String; 2],
}

impl Guard {
    /// With a new token, for a server on `port`.
    pub(crate) fn new(port: u16) -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let token = hexadecimal(&bytes);
        Ok(Self { token, hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")] })
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}/", self.hosts[0], self.token)
    }

    /// What of the path stands behind the token.
    ///
    /// # Errors
    /// Why the request is refused.
    pub(crate) fn admit<'p>(
        &self,
        method: &Method,
        path: &'p str,
        headers: &HeaderMap,
    ) -> Result<&'p str, (StatusCode, &'static str)> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{0}"));
        let forbidden = |why| Err((StatusCode::FORBIDDEN, why));
        // Of two hosts, one server would look at the first and another at the last.
        if headers.get_all(HOST).iter().count() != 1 {
            return Err((StatusCode::BAD_REQUEST, "found no host or several; needed one line Host"));
        }
        if !text(HOST.as_str()).is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            return forbidden("found another host; needed the address that pagelab printed");
        }
        let is_own = |origin: &str| self.hosts.iter().any(|own| origin.strip_prefix("http://") == Some(own));
        if text(ORIGIN.as_str()).is_some_and(|origin| !is_own(origin)) {
            return forbidden("found a request of another page; needed one of this page");
        }
        let is_same = |site: &str| ["none", "same-origin"].contains(&site);
        if text("sec-fetch-site").is_some_and(|site| !is_same(site)) {
            return forbidden("found a request of another site; needed one of this page");
        }
        if method != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "nothing can be changed here; needed GET"));
        }
        let (token, rest) = path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
        if !is_equal(token.as_bytes(), self.token.as_bytes()) {
            return forbidden("found no token, or another one; needed the address that pagelab printed");
        }
        Ok(rest)
    }
}

/// In a time that does not tell how much of them is equal.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn only_this_page_with_the_token_is_answered() {
        let guard = Guard::new(4711).unwrap();
        let path = format!("/{}/api/state", guard.token);
        let asked = |method, path: &str, of: &[(&'static str, &str)]| {
            guard.admit(&method, path, &headers(of)).map(str::to_owned)
        };
        let host = ("host", "127.0.0.1:4711");
        assert_eq!(asked(Method::GET, &path, &[host]).unwrap(), "api/state");
        let own = [("host", "localhost:4711"), ("origin", "http://127.0.0.1:4711"), ("sec-fetch-site", "same-origin")];
        assert_eq!(asked(Method::GET, &path, &own).unwrap(), "api/state");
        let refused: [(&str, Vec<(&'static str, &str)>); 10] = [
            (&path, vec![("host", "evil.example:4711")]),
            (&path, vec![("host", "localhost.evil.example:4711")]),
            (&path, vec![("host", "xlocalhost:4711")]),
            (&path, vec![("host", "localhost:47110")]),
            (&path, vec![("host", "127.0.0.1:80")]),
            (&path, vec![host, ("origin", "http://evil.example")]),
            (&path, vec![host, ("origin", "null")]),
            (&path, vec![host, ("sec-fetch-site", "cross-site")]),
            ("/api/state", vec![host]),
            (&path[..path.len() - 11], vec![host]),
        ];
        for (path, of) in refused {
            assert_eq!(asked(Method::GET, path, &of).unwrap_err().0, StatusCode::FORBIDDEN, "{path} {of:?}");
        }
        for hosts in [vec![], vec![host, host], vec![host, ("host", "evil.example")]] {
            assert_eq!(asked(Method::GET, &path, &hosts).unwrap_err().0, StatusCode::BAD_REQUEST, "{hosts:?}");
        }
        assert_eq!(asked(Method::POST, &path, &[host]).unwrap_err().0, StatusCode::METHOD_NOT_ALLOWED);
        let wrong = path.replacen(&guard.token[..1], if guard.token.starts_with('0') { "1" } else { "0" }, 1);
        assert!(asked(Method::GET, &wrong, &[host]).is_err());
        assert_ne!(Guard::new(1).unwrap().token, guard.token);
    }
}
