# SPDX-License-Identifier: BSD-3-Clause
"""What has a limit of some seconds."""

import select
import socket
import time

from case import case, equal
from channel import PING, Channel


@case
def connection__without_a_hello_ends(world):
    with world.open() as client:
        endpoint = client.welcome["endpoints"][client.endpoint()]
        socks = [socket.create_connection(address, 20)
                 for address in ((world.host, world.port), client.address(endpoint))]
        for sock in socks:
            try:
                while True:
                    client.call("ping")
                    if sock in select.select([sock], [], [], 0.2)[0] and not sock.recv(65536):
                        break
            except ConnectionError:
                pass
            sock.close()


@case
def channel__has_to_come_within_30_s_of_the_grant(world):
    with world.open() as client:
        early = client.call("open_channel", endpoint=client.endpoint())
        granted = client.call("open_channel", endpoint=client.endpoint())
        with Channel(client, early) as channel:
            for _ in range(155):
                client.call("ping")
                time.sleep(0.2)
            equal(channel.inband(PING), ("done", 0), "a ping on the channel that came")
        with Channel(client, granted) as channel:
            equal(channel.status, "stale", "the status of a late hello")
