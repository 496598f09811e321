"""An SFTP server on the socket that is the standard input.

It runs in the directory that it serves. Its keys are in the directory above.
"""

import asyncio
import socket

import asyncssh


async def main():
    loop = asyncio.get_running_loop()
    create_server = loop.create_server

    def on_socket(factory, *address, **options):
        """Older versions take no socket, only an address."""
        return create_server(factory, sock=socket.socket(fileno=0))

    loop.create_server = on_socket
    await asyncssh.listen(
        server_host_keys=["../host_key"],
        authorized_client_keys="../authorized_keys",
        sftp_factory=True,
    )
    await asyncio.Event().wait()


asyncio.run(main())
