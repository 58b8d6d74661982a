# SPDX-License-Identifier: BSD-3-Clause
"""TLS with an external pre-shared key, for which Python's own module is too old: OpenSSL by
ctypes."""

import ctypes
import ctypes.util
import hashlib
import select

ALPN = "rmem/1"
SUITE = b"\x13\x01"     # TLS_AES_128_GCM_SHA256
VERSION = 0x0304
WANT_READ, WANT_WRITE, SYSCALL, ENDED = 2, 3, 5, 6
SET_MIN_VERSION = 123   # of SSL_CTX_ctrl

# int callback(SSL *, const EVP_MD *, const unsigned char **id, size_t *id_len, SSL_SESSION **)
USE_SESSION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                               ctypes.POINTER(ctypes.c_void_p),
                               ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p))


def library():
    """libssl, or None."""
    name = ctypes.util.find_library("ssl")
    if not name:
        return None
    ssl = ctypes.CDLL(name)
    for function, result in (("TLS_client_method", ctypes.c_void_p),
                             ("SSL_CTX_new", ctypes.c_void_p),
                             ("SSL_new", ctypes.c_void_p), ("SSL_SESSION_new", ctypes.c_void_p),
                             ("SSL_CIPHER_find", ctypes.c_void_p),
                             ("SSL_get1_session", ctypes.c_void_p)):
        getattr(ssl, function).restype = result
    return ssl


def identity(tenant, key):
    """That of a tenant's key on a control connection."""
    return f"rmem1 {tenant} {hashlib.sha256(key).hexdigest()[:16]}"


class Failed(ConnectionError):
    """The other side, or this one, does not go on with the handshake or the stream."""


class Tls:
    """A socket under TLS, with what this folder uses of a socket."""

    def __init__(self, sock, name, key, protocol=None):
        """The handshake; protocol: offered by ALPN."""
        self.sock = sock
        self.ssl = library()
        self.name = ctypes.create_string_buffer(name.encode())
        self.key = key
        self.callback = USE_SESSION(self.use_session)
        method = ctypes.c_void_p(self.ssl.TLS_client_method())
        context = ctypes.c_void_p(self.ssl.SSL_CTX_new(method))
        self.ssl.SSL_CTX_ctrl(context, SET_MIN_VERSION, ctypes.c_long(VERSION), None)
        self.ssl.SSL_CTX_set_ciphersuites(context, b"TLS_AES_128_GCM_SHA256")
        self.ssl.SSL_CTX_set_psk_use_session_callback(context, self.callback)
        if protocol:
            offered = bytes([len(protocol)]) + protocol.encode()
            self.ssl.SSL_CTX_set_alpn_protos(context, offered, len(offered))
        self.at = ctypes.c_void_p(self.ssl.SSL_new(context))
        self.ssl.SSL_CTX_free(context)
        self.ssl.SSL_set_fd(self.at, sock.fileno())
        self.repeat(lambda: self.ssl.SSL_connect(self.at))

    def use_session(self, ssl, _md, ret_id, ret_length, ret_session):
        session = ctypes.c_void_p(self.ssl.SSL_SESSION_new())
        self.ssl.SSL_SESSION_set1_master_key(session, self.key, ctypes.c_size_t(len(self.key)))
        cipher = ctypes.c_void_p(self.ssl.SSL_CIPHER_find(ctypes.c_void_p(ssl), SUITE))
        self.ssl.SSL_SESSION_set_cipher(session, cipher)
        self.ssl.SSL_SESSION_set_protocol_version(session, VERSION)
        ret_id[0] = ctypes.addressof(self.name)
        ret_length[0] = len(self.name) - 1
        ret_session[0] = session.value
        return 1

    def repeat(self, function):
        """Call until the function has a result; 0 at the end of the stream."""
        while True:
            self.ssl.ERR_clear_error()
            n = function()
            if n > 0:
                return n
            error = self.ssl.SSL_get_error(self.at, n)
            if error == ENDED:
                return 0
            if error not in (WANT_READ, WANT_WRITE):
                raise Failed(f"error {error} of TLS")
            wanted = [self.sock]
            ready = select.select(wanted if error == WANT_READ else [],
                                  wanted if error == WANT_WRITE else [], [],
                                  self.sock.gettimeout())
            if not ready[0] and not ready[1]:
                raise TimeoutError("nothing comes")

    def protocol(self):
        """That which the server chose by ALPN."""
        text, n = ctypes.c_void_p(), ctypes.c_uint()
        self.ssl.SSL_get0_alpn_selected(self.at, ctypes.byref(text), ctypes.byref(n))
        return ctypes.string_at(text, n.value).decode() if n.value else None

    def recv(self, n):
        buffer = ctypes.create_string_buffer(n)
        got = self.repeat(lambda: self.ssl.SSL_read(self.at, buffer, n))
        return buffer.raw[:got]

    def sendall(self, data):
        while data:
            data = data[self.repeat(lambda: self.ssl.SSL_write(self.at, data, len(data))):]

    def settimeout(self, seconds):
        self.sock.settimeout(seconds)

    def getpeername(self):
        return self.sock.getpeername()

    def shutdown(self, how):
        self.sock.shutdown(how)

    def close(self):
        if self.at:
            self.ssl.SSL_free(self.at)
        self.at = None
        self.sock.close()
