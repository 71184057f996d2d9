"""A master and chunkservers that say what a test wants them to, by the schema alone.

They keep no promise of the protocol. They are for what a command does with answers that real
servers give only after hours, or never.
"""

from concurrent import futures

import grpc

from process_wire import BATCH_HEADER

class StagedServer(grpc.GenericRpcHandler):
    """Serves unary methods by functions of self: `def Stat(self, request)` returns the reply."""

    def __init__(self, schema):
        self.schema = schema
        self.calls = []  # (method, request), in order
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self):
        self._server.stop(None).wait()

    def service(self, handler_call_details):
        name = handler_call_details.method.rsplit("/", 1)[1]
        answer = getattr(self, name, None)
        if answer is None:
            return None

        def serve(request, _context):
            self.calls.append((name, request))
            return answer(request)

        return grpc.unary_unary_rpc_method_handler(
            serve, request_deserializer=getattr(self.schema, name + "Request").FromString,
            response_serializer=lambda r: r if isinstance(r, bytes) else r.SerializeToString())

    def asked(self, method):
        return [request for name, request in self.calls if name == method]


class StagedMaster(StagedServer):
    """Answers each method with what `replies` has under its name: a reply (a message or its bytes),
    or a list of replies to be given one after another, the last one for ever."""

    def __init__(self, schema):
        super().__init__(schema)
        self.replies = {}

    def __getattr__(self, name):
        if not name[:1].isupper():
            raise AttributeError(name)

        def answer(_request):
            reply = self.replies.get(name)
            if isinstance(reply, list):
                return reply.pop(0) if len(reply) > 1 else reply[0]
            return reply if reply is not None else getattr(self.schema, name + "Reply")(
                error=self.schema.UNIMPLEMENTED, error_text=f"no {name} on this stage")

        return answer


class StagedChunkServer(StagedServer):
    """Shows replicas: `replicas[chunk]` is a dict of `log`, `version`, `sealed`, or an error."""

    def __init__(self, schema):
        super().__init__(schema)
        self.replicas = {}

    def Read(self, request):  # pylint: disable=invalid-name
        replica = self.replicas.get(request.chunk, self.schema.NO_REPLICA)
        if isinstance(replica, int):
            return self.schema.ReadReply(error=replica, error_text="so the stage says")
        log = replica["log"]
        reply = self.schema.ReadReply(version=replica["version"], sealed=replica["sealed"],
                                      committed=len(log))
        if request.offset > len(log):
            if replica["sealed"]:
                reply.error = self.schema.INVALID_ARGUMENT
            return reply
        at = end = request.offset
        while at < len(log):
            at += BATCH_HEADER.unpack_from(log, at)[2]
            if end > request.offset and at - request.offset > request.max_bytes:
                break
            end = at
        reply.batches = log[request.offset:end]
        return reply
