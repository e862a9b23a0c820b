"""Keys for tests, as PEM files: made anew each time, so that none lies in the repository."""

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

CURVES = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}


def write(folder, name, key, password=None, form=serialization.PrivateFormat.PKCS8):
    """NAME.pem and NAME.pub in the folder; gives both paths."""
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def make(folder, curve="P-256", name="key"):
    return write(folder, name, ec.generate_private_key(CURVES[curve]))


def unusable(folder):
    """Files by what is wrong with them, and the exit code of who is given one as a private key."""
    text = write(folder, "good", ec.generate_private_key(CURVES["P-256"]))[0].read_text().splitlines()
    write(folder, "second", ec.generate_private_key(CURVES["P-256"]))
    traditional = serialization.PrivateFormat.TraditionalOpenSSL
    halves = [base64.b64decode("".join((folder / f"{name}.pem").read_text().splitlines()[1:-1])) for name in ("good", "second")]
    mixed = base64.b64encode(halves[0][:-65] + halves[1][-65:]).decode()  # the point lies at the end
    (folder / "mixed.pem").write_text(f"{text[0]}\n{mixed}\n{text[-1]}\n")
    (folder / "text.pem").write_text("no key at all\n")
    (folder / "cut.pem").write_text("\n".join([*text[:2], text[-1]]) + "\n")
    return {
        "is a public key": (folder / "good.pub", 2),
        "is an encrypted key, and weir does not ask for passwords": (write(folder, "locked", ec.generate_private_key(CURVES["P-256"]), b"word")[0], 2),
        "is an encrypted key": (write(folder, "old", ec.generate_private_key(CURVES["P-256"]), b"word", traditional)[0], 2),
        "has another kind or curve": (write(folder, "rsa", rsa.generate_private_key(65537, 2048))[0], 2),
        "is a key of another kind": (write(folder, "rsa1", rsa.generate_private_key(65537, 2048), form=traditional)[0], 2),
        "of the curve P-256, P-384 or P-521": (write(folder, "ed", ed25519.Ed25519PrivateKey.generate())[0], 2),
        "kind or curve": (write(folder, "k1", ec.generate_private_key(ec.SECP256K1()))[0], 2),
        "is not a key in PEM form": (folder / "text.pem", 65),
        "it is not the kind of key that its label names": (folder / "cut.pem", 65),
        "is damaged": (folder / "mixed.pem", 65),
        "there is no key": (folder / "nothing.pem", 66),
        "is not a regular file": (folder, 66),
    }
