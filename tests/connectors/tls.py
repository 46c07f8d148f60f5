"""A certificate for servers on the loopback."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, days: float = 1.0, issuer: Path | None = None) -> Path:
    """A PEM file with a private key and its self-signed certificate; the certificate alone is next to it, in `ca.pem`.

    It is valid until so many days from now, which may have passed. `issuer`: such a file, whose key signs it instead.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signing = key if issuer is None else serialization.load_pem_private_key(issuer.read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name if issuer is None else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issued")]))
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(signing, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    (folder / "ca.pem").write_bytes(signed)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both = folder / "server.pem"
    both.write_bytes(private + signed)
    return both
