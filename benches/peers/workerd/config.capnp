# workerd with Durable Objects on SQLite. The load program gives the address and the folder:
#   workerd serve config.capnp --socket-addr=http=127.0.0.1:PORT --directory-path=disk=FOLDER
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "bench", worker = .bench),
    (name = "disk", disk = (writable = true)),
  ],
  sockets = [(name = "http", http = (), service = "bench")],
);

const bench :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2026-01-01",
  durableObjectNamespaces = [(className = "Bench", uniqueKey = "bench", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "BENCH", durableObjectNamespace = "Bench")],
);
