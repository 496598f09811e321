"""An FTP server on the socket that is the standard input.

The arguments are the name and password of a user, their directory, the address
that the server gives for passive mode, and a file with a certificate and its key
where TLS is demanded.
"""

import os
import socket
import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, TLS_FTPHandler
from pyftpdlib.servers import FTPServer

user, password, directory, passive, *certificate = sys.argv[1:]

handler = FTPHandler
if certificate:
    handler = TLS_FTPHandler
    handler.certfile = certificate[0]
    handler.tls_control_required = handler.tls_data_required = True
handler.masquerade_address = passive
handler.permit_foreign_addresses = False
handler.authorizer = DummyAuthorizer()
handler.authorizer.add_user(user, password, directory, perm="elradfmwMT")
# It takes no descriptor 0.
FTPServer(socket.socket(fileno=os.dup(0)), handler).serve_forever()
