//! TLS to a server with a certificate of its own.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use hikyaku_postgres::{Options, PostgresError, PostgresStore, testing::Cluster};
use hikyaku_store::testing::{Blocking, draft};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

struct Server {
    cluster: Cluster,
    folder: TempDir,
    authority: Authority,
    certificate: String,
}

impl Server {
    /// Starts a server that is `localhost`, says an authority.
    fn start() -> Self {
        let authority = authority();
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &authority).unwrap().pem();
        Self {
            cluster: Cluster::start_with_certificate(&certificate, &key.serialize_pem()),
            folder: TempDir::new().unwrap(),
            authority,
            certificate,
        }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn open(&self, host: &str, parameters: &str) -> Result<PostgresStore, PostgresError> {
        let port = self.cluster.port();
        let url = format!("postgres://postgres@{host}:{port}/postgres?{parameters}");
        PostgresStore::open(&Options::new(&url))
    }

    fn refusal(&self, host: &str, parameters: &str) -> String {
        match self.open(host, parameters) {
            Err(PostgresError::Refused(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Tells whether all connections of an open store are encrypted.
    fn is_encrypted(&self) -> bool {
        let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
            WHERE application_name LIKE 'hikyaku%'";
        self.cluster.sql(sql) == "t"
    }
}

#[test]
fn certificates_are_checked_as_far_as_the_operator_wants() {
    let server = Server::start();
    let signer = server.file("signer.pem", &server.authority.pem());
    let own = server.file("own.pem", &server.certificate);
    let stranger = server.file("stranger.pem", &authority().pem());
    let (signer, own) = (signer.display(), own.display());
    for (host, parameters) in [
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        (
            "127.0.0.1",
            format!("sslmode=verify-ca&sslrootcert={signer}"),
        ),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={signer}"),
        ),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={own}"),
        ),
    ] {
        let store = server.open(host, &parameters).unwrap();
        Blocking(&store).put(&draft(1, 1, 100).build(), 1_000);
        assert!(server.is_encrypted(), "{host} {parameters}");
    }
    let store = server.open("127.0.0.1", "sslmode=disable").unwrap();
    assert!(!server.is_encrypted());
    drop(store);

    for wrong in [
        server.refusal(
            "127.0.0.1",
            &format!("sslmode=verify-full&sslrootcert={signer}"),
        ),
        server.refusal(
            "127.0.0.1",
            &format!("sslmode=verify-full&sslrootcert={own}"),
        ),
    ] {
        assert!(wrong.contains("not valid for name"), "{wrong}");
    }
    let stranger = stranger.display();
    for mode in ["require", "verify-ca", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert={stranger}");
        let wrong = server.refusal("localhost", &parameters);
        assert!(wrong.contains("invalid peer certificate"), "{wrong}");
        assert!(wrong.contains("sslrootcert"), "{wrong}");
    }
    let missing = server.refusal("localhost", "sslmode=verify-full&sslrootcert=/nowhere");
    assert!(missing.contains("sslrootcert=/nowhere"), "{missing}");
}

#[test]
fn a_server_without_tls_is_not_spoken_to_where_it_is_wanted() {
    let (url, _) = hikyaku_postgres::testing::shared();
    let options = Options::new(&format!("{url}?sslmode=require"));
    let error = PostgresStore::open(&options).unwrap_err();
    assert!(
        error.to_string().contains("does not support TLS"),
        "{error}"
    );
}

#[test]
fn a_client_shows_its_own_certificate_where_the_server_wants_one() {
    let server = Server::start();
    let signer = server.file("signer.pem", &server.authority.pem());
    let signed = |authority: &Authority, file: &str| {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters
            .distinguished_name
            .push(DnType::CommonName, "certified");
        let certificate = parameters.signed_by(&key, authority).unwrap().pem();
        let certificate = server.file(&format!("{file}.crt"), &certificate);
        let key = server.file(&format!("{file}.key"), &key.serialize_pem());
        format!("sslcert={}&sslkey={}", certificate.display(), key.display())
    };
    let (own, strangers) = (
        signed(&server.authority, "own"),
        signed(&authority(), "strangers"),
    );
    let cluster = &server.cluster;
    cluster.sql("CREATE ROLE certified LOGIN SUPERUSER");
    cluster.file("clients.pem", &server.authority.pem());
    cluster.sql("ALTER SYSTEM SET ssl_ca_file = 'clients.pem'");
    let rules = "hostssl all certified 127.0.0.1/32 cert\nhost all postgres 127.0.0.1/32 trust\n";
    cluster.file("pg_hba.conf", rules);
    cluster.sql("SELECT pg_reload_conf()");
    let open = |parameters: &str| {
        let port = server.cluster.port();
        let signer = signer.display();
        let url = format!(
            "postgres://certified@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={signer}{parameters}"
        );
        PostgresStore::open(&Options::new(&url))
    };
    // The server reads its files again some moment after it is told to.
    let deadline = Instant::now() + Duration::from_mins(1);
    let store = loop {
        match open(&format!("&{own}")) {
            Ok(store) => break store,
            Err(error) => {
                assert!(matches!(error, PostgresError::Refused(_)), "{error}");
                assert!(Instant::now() < deadline, "still not let in: {error}");
            }
        }
    };
    Blocking(&store).put(&draft(1, 1, 100).build(), 1_000);
    assert!(server.is_encrypted());
    assert!(open("").is_err(), "without a certificate");
    assert!(open(&format!("&{strangers}")).is_err(), "with a stranger's");
}
