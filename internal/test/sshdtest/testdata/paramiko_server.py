"""An SFTP server on the socket that is the standard input.

It runs in the directory that it serves. Its keys are in the directory above.
"""

import os
import socket
import threading

import paramiko
from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface

HOST_KEY = paramiko.Ed25519Key(filename="../host_key")
with open("../authorized_keys") as lines:
    CLIENT_KEY = lines.read().split()[1]


class Login(paramiko.ServerInterface):
    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        if key.get_base64() == CLIENT_KEY:
            return paramiko.AUTH_SUCCESSFUL
        return paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        if kind == "session":
            return paramiko.OPEN_SUCCEEDED
        return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED


class Handle(SFTPHandle):
    def stat(self):
        return SFTPAttributes.from_stat(os.fstat(self.readfile.fileno()))

    def chattr(self, attr):
        SFTPServer.set_file_attr(self.name, attr)
        return paramiko.SFTP_OK


def answering(operation):
    """The method answers with a status; an error of the system becomes one."""

    def method(*args):
        try:
            result = operation(*args)
        except OSError as error:
            return SFTPServer.convert_errno(error.errno)
        return paramiko.SFTP_OK if result is None else result

    return method


class Files(SFTPServerInterface):
    def canonicalize(self, path):
        return os.path.abspath(path)

    @answering
    def list_folder(self, path):
        return [
            SFTPAttributes.from_stat(os.lstat(os.path.join(path, name)), name)
            for name in os.listdir(path)
        ]

    @answering
    def stat(self, path):
        return SFTPAttributes.from_stat(os.stat(path))

    @answering
    def lstat(self, path):
        return SFTPAttributes.from_stat(os.lstat(path))

    @answering
    def open(self, path, flags, attr):
        descriptor = os.open(path, flags, 0o666)
        mode = "r+b" if flags & os.O_RDWR else "wb" if flags & os.O_WRONLY else "rb"
        handle = Handle(flags)
        handle.name = path
        handle.readfile = handle.writefile = os.fdopen(descriptor, mode)
        return handle

    @answering
    def remove(self, path):
        os.remove(path)

    @answering
    def rename(self, old, new):
        if os.path.lexists(new):
            return paramiko.SFTP_FAILURE
        os.rename(old, new)

    @answering
    def posix_rename(self, old, new):
        os.rename(old, new)

    @answering
    def mkdir(self, path, attr):
        os.mkdir(path)

    @answering
    def rmdir(self, path):
        os.rmdir(path)

    @answering
    def chattr(self, path, attr):
        SFTPServer.set_file_attr(path, attr)


def serve(connection):
    transport = paramiko.Transport(connection)
    transport.add_server_key(HOST_KEY)
    transport.set_subsystem_handler("sftp", SFTPServer, Files)
    transport.start_server(server=Login())


listener = socket.socket(fileno=0)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
