"""certificates.py - what a server needs to speak TLS: a CA, leaves, a context; by the openssl command"""

import ipaddress
import os
import secrets
import ssl
import subprocess


def openssl(*args, text=None):
    done = subprocess.run(["openssl", *args], input=text, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {args[0]}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def make_ca(folder, name="ca", subject=None):
    """Makes a CA in `folder`; gives the paths of certificate and key."""
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    subject = subject or f"/CN=Mock CA {secrets.token_hex(4)}"
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc",
        "-keyout", key, "-out", cert, "-days", "3", "-subj", subject,
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip
    return cert, key


def alternative_names(names):
    def kind(name):
        try:
            ipaddress.ip_address(name)
            return "IP"
        except ValueError:
            return "DNS"

    return ",".join(f"{kind(n)}:{n}" for n in names)


def make_leaf(folder, ca, names, stem="leaf", self_signed=False):
    """Makes a server certificate for `names`, signed by `ca` (paths of certificate and key)."""
    cert, key = os.path.join(folder, stem + ".pem"), os.path.join(folder, stem + ".key")
    signer = [] if self_signed else ["-CA", ca[0], "-CAkey", ca[1]]
    openssl(
        "req", "-x509", *signer, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc",
        "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={names[0][:60]}",
        "-addext", "basicConstraints=critical,CA:FALSE",
        "-addext", "keyUsage=critical,digitalSignature",
        "-addext", "extendedKeyUsage=serverAuth",
        "-addext", "subjectAltName=" + alternative_names(names),
    )  # fmt: skip
    return cert, key


def server_context(cert, key, lowest=ssl.TLSVersion.TLSv1_2, highest=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if lowest < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = lowest
    if highest:
        context.maximum_version = highest
    context.set_alpn_protocols(["http/1.1"])
    return context
