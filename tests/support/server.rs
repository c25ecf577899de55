use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Longer than any test lets a server wait.
const PATIENCE: Duration = Duration::from_secs(40);

/// A server outside the node, on loopback, which says on each connection what a test has it say.
pub struct Server {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<Head>>>,
}

/// What came before a request's body.
#[derive(Clone, Debug)]
pub struct Head {
    /// `GET /path HTTP/1.1`
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(have, _)| have == name)?;
        Some(value)
    }
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// One connection, whose request's head was read.
pub struct Connection {
    pub head: Head,
    stream: BufReader<Box<dyn Stream>>,
}

impl Server {
    pub fn start(
        answer: impl Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::listen(None, answer)
    }

    /// One that speaks TLS.
    pub fn with_tls(
        config: ServerConfig,
        answer: impl Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(Arc::new(config)), answer)
    }

    /// One that answers everything with these bytes, and closes.
    pub fn saying(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::start(move |connection| {
            connection.read_body()?;
            connection.say(bytes.as_ref())
        })
    }

    fn listen(
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("an address");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&heads), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (tls, seen, answer) = (tls.clone(), Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut connection = Connection::accept(stream, tls)?;
                    let head = connection.head.clone();
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
                    answer(&mut connection)
                });
            }
        });
        Self { address, heads }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests that came so far.
    pub fn requests(&self) -> Vec<Head> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Connection {
    fn accept(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(config) => {
                let session = ServerConnection::new(config).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(session, stream))
            }
        };
        let mut stream = BufReader::new(stream);
        let line = read_line(&mut stream)?;
        let mut headers = Vec::new();
        loop {
            let field = read_line(&mut stream)?;
            let Some((name, value)) = field.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Self { head: Head { line, headers }, stream })
    }

    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_ref())?;
        self.stream.get_mut().flush()
    }

    /// The request's body, as its head frames it.
    pub fn read_body(&mut self) -> io::Result<Vec<u8>> {
        if self.head.header("transfer-encoding").is_some() {
            let mut body = Vec::new();
            loop {
                let size = usize::from_str_radix(&read_line(&mut self.stream)?, 16);
                let size = size.map_err(io::Error::other)?;
                let mut chunk = vec![0; size + 2];
                self.stream.read_exact(&mut chunk)?;
                if size == 0 {
                    return Ok(body);
                }
                body.extend_from_slice(&chunk[..size]);
            }
        }
        let length = self.head.header("content-length").map_or(Ok(0), str::parse);
        let mut body = vec![0; length.map_err(io::Error::other)?];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// Returns once the other side has closed the connection.
    pub fn wait_for_close(&mut self) {
        let _ = io::copy(&mut self.stream, &mut io::sink());
    }
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
