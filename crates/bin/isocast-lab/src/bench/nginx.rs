//! nginx as its best user would set it up for this job: paced files from one folder, uploads by PUT into it.
//!
//! Choices, each the better of the variants tried: `sendfile` (cheaper than reading and writing), a thread pool where
//! the contents are on a disk (a worker would otherwise wait for it and hold up all its streams) and none where they are
//! in memory (each hand-over costs processor time), `limit_rate` from the query, no access log, bodies of uploads on
//! the contents' file system so that publishing is a rename, one worker per processor.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use units::BitRate;

use super::client::rate_text;

const PLACES: [&str; 4] = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx"];

/// The pair of a server with TLS, in its folder.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";

/// Places of nginx and its files.
pub(crate) struct NginxPaths<'a> {
    /// A temporary folder for its process id and unused temporary files.
    pub prefix: &'a Path,
    /// Address on which it listens.
    pub address: SocketAddr,
    /// Address with TLS.
    pub sealed: Option<SocketAddr>,
    /// The contents.
    pub root: &'a Path,
    /// Bodies of uploads on their way.
    pub bodies: &'a Path,
    /// Whether file reads go to a thread pool.
    pub threads: bool,
}

/// The program, if it is installed.
pub(crate) fn find() -> Option<PathBuf> {
    crate::in_path("nginx").or_else(|| PLACES.iter().map(PathBuf::from).find(|place| place.is_file()))
}

/// The whole configuration. A request's `rate=` is looked up among `rates`; others are not limited.
pub(crate) fn configuration(layout: &NginxPaths<'_>, rates: &[BitRate]) -> String {
    let prefix = layout.prefix.display();
    let map = rates.iter().fold(String::new(), |mut text, &rate| {
        let _ = writeln!(text, "    \"{}\" {};", rate_text(rate), rate.bytes_per_second());
        text
    });
    // Workers keep root where there is root: the contents need not be readable for nginx's own user.
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let (pool, aio) = if layout.threads {
        ("thread_pool default threads=32 max_queue=65536;\n", "    aio threads;\n")
    } else {
        ("", "")
    };
    let tls = layout.sealed.map_or_else(String::new, |sealed| {
        format!(
            "    listen {sealed} ssl backlog=4096 reuseport;\n    ssl_certificate {prefix}/{CERTIFICATE};\n    \
             ssl_certificate_key {prefix}/{KEY};\n    ssl_protocols TLSv1.2 TLSv1.3;\n"
        )
    });
    let temporary = ["proxy", "fastcgi", "uwsgi", "scgi"].iter().fold(String::new(), |mut text, kind| {
        let _ = writeln!(text, "  {kind}_temp_path {prefix}/{kind};");
        text
    });
    format!(
        "\
daemon off;
{user}{pool}worker_processes auto;
worker_rlimit_nofile 65536;
pid {prefix}/nginx.pid;
error_log stderr warn;
events {{
  worker_connections 16384;
  use epoll;
}}
http {{
  default_type application/octet-stream;
  access_log off;
  server_tokens off;
  sendfile on;
  tcp_nopush on;
  output_buffers 2 1m;
  keepalive_timeout 75s;
  keepalive_requests 1000000;
  reset_timedout_connection on;
{temporary}  client_body_temp_path {bodies};
  map $arg_rate $bytes_per_second {{
    default 0;
{map}  }}
  server {{
    listen {address} backlog=4096 reuseport;
{tls}{aio}    location = /ready {{ return 200; }}
    location /media/ {{
      alias {root}/;
      limit_rate $bytes_per_second;
      dav_methods PUT DELETE;
      create_full_put_path on;
      client_max_body_size 0;
      client_body_buffer_size 1m;
    }}
  }}
}}
",
        bodies = layout.bodies.display(),
        address = layout.address,
        root = layout.root.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_the_map_and_reads_go_where_they_should() {
        let address: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        let (prefix, root, bodies) = (Path::new("/p"), Path::new("/r"), Path::new("/r/.b"));
        let of = |threads| {
            configuration(
                &NginxPaths { prefix, address, sealed: Some(address), root, bodies, threads },
                &[BitRate(8_800_000), BitRate(2_000_000)],
            )
        };
        assert!(of(true).contains("\"8800k\" 1100000;\n") && of(true).contains("\"2000k\" 250000;\n"));
        assert!(of(true).contains("aio threads;") && !of(false).contains("aio"));
        assert!(of(true).contains("listen 127.0.0.1:4000 ssl ") && of(true).contains("ssl_certificate /p/"));
        assert!(of(false).contains("client_body_temp_path /r/.b;"));
    }
}
