package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/streams"
)

func init() {
	Verbs.Add("", serverCommand)
	Verbs.Add("server", serverConfigCommand, serverCheckCommand, serverRenewCommand, serverMendCommand,
		serverEraseCommand, serverRewriteCommand, serverInitCommand)
}

func serverCommand(a *verb.App) *cobra.Command {
	return verb.Group("server", "Run the pipeline on separate nats-servers")
}

func serverConfigCommand(a *verb.App) *cobra.Command {
	var c natsserver.ServerConfig
	var out string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write the configuration of a nats-server, alone or in a cluster",
		Long: `Write a configuration for nats-server 2.12 or later: operator mode with the accounts
of the data folder (made if missing), JetStream on disk, synced before it
acknowledges, and encrypted. Run it once per server with the same data folder, so
that all servers have the same accounts. Credentials have the same permissions as
with "lazaret up".

A server that joins a cluster can impersonate every agent without a credential. A
cluster therefore has its own certificate authority in the data folder: each server
gets a certificate for its name, the hosts of --routes and its address, and all
servers share a password. Copy DATA/keys/cluster/servers/NAME to the server's machine, and name the
place with --cluster-certs. Renew the certificates with "lazaret server renew".`,
		Example: `  lazaret server config --data lz --name n1 --listen 0.0.0.0:4222 --store /var/lib/nats \\
    --cluster-listen n1:6222 --routes nats://n1:6222,nats://n2:6222,nats://n3:6222 \
    --cluster-certs /etc/nats/cluster -o n1.conf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			a.Conn.Resolve()
			var w io.Writer = cmd.OutOrStdout()
			if out != "" {
				f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
				if err != nil {
					return err
				}
				defer f.Close()
				w = f
				if c.KeyFile == "" { // the server resolves it relative to the configuration's folder
					from, err1 := filepath.Abs(filepath.Dir(out))
					to, err2 := filepath.Abs(natsserver.StorageKeyFile(a.Conn.Data))
					if c.KeyFile, err = filepath.Rel(from, to); errors.Join(err1, err2, err) != nil {
						return errors.Join(err1, err2, err)
					}
				}
			}
			if c.Cluster == "" {
				c.ClusterName = ""
			}
			return natsserver.WriteConfig(w, a.Conn.Data, c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Name, "name", "lazaret", "`NAME` of this server, unique in the cluster")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:4222", "`HOST:PORT` for clients")
	f.StringVar(&c.HTTP, "http", "", "`HOST:PORT` of the monitoring page (default none)")
	f.StringVar(&c.Store, "store", "/var/lib/nats", "`DIR` of the streams")
	f.StringVar(&c.ClusterName, "cluster-name", "lazaret", "`NAME` of the cluster")
	f.StringVar(&c.Cluster, "cluster-listen", "", "`HOST:PORT` for the cluster's other servers; with it, the server "+
		"joins a cluster")
	f.StringSliceVar(&c.Routes, "routes", nil, "`URLS` of the cluster's servers, nats://HOST:PORT")
	f.StringVar(&c.CertDir, "cluster-certs", "",
		"`DIR` on the server's machine with its certificate for the cluster (default DATA/keys/cluster/servers/NAME)")
	f.BoolVar(&c.NoSync, "no-sync", false, "acknowledge messages before they are on disk: faster, but a crash of the "+
		"machine can lose the last two minutes")
	f.StringVar(&c.KeyFile, "key-file", "", "`FILE` with the key that encrypts the streams, relative to the "+
		"configuration's folder (default DATA/keys/jetstream.conf, which is created)")
	f.StringVar(&c.TLSCert, "tls-cert", "", "server's certificate `FILE`")
	f.StringVar(&c.TLSKey, "tls-key", "", "`FILE` of the key of --tls-cert")
	f.StringVar(&c.TLSCA, "tls-ca", "", "`FILE` of the authorities that the server trusts")
	f.StringVarP(&out, "output", "o", "", "write to `FILE` instead of standard output")
	return cmd
}

func serverCheckCommand(_ *verb.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check CONFIG",
		Short: "Check that a nats-server configuration requires certificates of other servers",
		Long: `Read a configuration as nats-server does, including the files that it refers to. Exit
code 2 if a cluster, gateway or leaf node listener is reachable from other machines
without a password and mutual TLS with its own authority.`,
		Example: "  lazaret server check n1.conf && nats-server -c n1.conf",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := natsserver.CheckConfig(args[0]); err != nil {
				return &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
			}
			fmt.Fprintln(cmd.OutOrStdout(), "no listener for other servers can be reached from other machines without a "+
				"password and mutual TLS")
			return nil
		},
	}
}

func serverRenewCommand(a *verb.App) *cobra.Command {
	var exchange bool
	c := &cobra.Command{
		Use:   "renew",
		Short: "Renew the certificates of a cluster's servers",
		Long: `Make new certificates and keys for all servers with a certificate of "lazaret server
config". They are valid for 397 days. "lazaret doctor" reports a certificate in its last 30.

Copy DATA/keys/cluster/servers/NAME to each machine and reload the server:
nats-server --signal reload=PID, or SIGHUP. Nothing restarts, and routes stay up.

--authority replaces the authority itself in three steps, each with the same command:
first all servers also trust the next authority, then they get certificates of it, then
they stop trusting the old one. Reload all servers before the next step.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			step, certs, err := natsserver.RenewCluster(a.Conn.Data, exchange)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			for _, c := range certs {
				fmt.Fprintf(w, "%s  valid until %s  %s\n", c.Server, c.Expires.UTC().Format(time.DateOnly),
					natsserver.ServerCertDir(a.Conn.Data, c.Server))
			}
			switch step {
			case natsserver.ExchangeTrusted:
				fmt.Fprintln(w, "step 1 of 3: the next authority is trusted too")
			case natsserver.ExchangeIssued:
				fmt.Fprintln(w, "step 2 of 3: the certificates are of the new authority, the old one is still trusted")
			case natsserver.ExchangeDone:
				fmt.Fprintln(w, "step 3 of 3: the old authority is no longer trusted")
			}
			fmt.Fprintln(w, "now copy each folder to its machine, and reload all servers: nats-server --signal reload=PID")
			return nil
		},
	}
	c.Flags().BoolVar(&exchange, "authority", false, "take the next of the three steps that replace the authority")
	return c
}

func serverMendCommand(a *verb.App) *cobra.Command {
	return &cobra.Command{
		Use:   "mend STORE",
		Short: "Repair the store of a nats-server that was killed, before its next start",
		Long: `Repair STORE, the store_dir of a nats-server that was killed. A kill can leave an empty
block without a key file in an encrypted stream. nats-server 2.15.2 cannot recover a
stream with such a block, and deletes the stream. This command removes these blocks. The
server must not be running. If STORE does not exist, as before the server's first start,
there is nothing to repair. "lazaret up" does this automatically.`,
		Example: "  lazaret server mend /var/lib/nats && nats-server -c n1.conf",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if fi, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s does not exist, so there is nothing to repair: nats-server makes its store at "+
					"its first start\n", verb.Quote(args[0], 300))
				return nil
			} else if err != nil {
				return fmt.Errorf("the store of a nats-server cannot be opened: %w", err)
			} else if !fi.IsDir() {
				return fmt.Errorf("%q is not a folder: STORE is the folder store_dir of a nats-server", args[0])
			}
			removed, err := natsserver.Mend(args[0], slog.New(slog.DiscardHandler))
			for _, f := range removed {
				fmt.Fprintln(cmd.OutOrStdout(), "removed", f)
			}
			return err
		},
	}
}

func serverEraseCommand(a *verb.App) *cobra.Command {
	return &cobra.Command{
		Use:   "erase STORE",
		Short: "Remove deleted messages from the files of a stopped nats-server",
		Long: `Overwrite deleted messages with random bytes in the files of STORE, the store_dir of an
unclustered nats-server with a configuration of "lazaret server config" from this data
folder. nats-server 2.15.2 leaves deleted messages of encrypted streams in its files, so
"lazaret audit forget" reports them as left. Stop the server first. "lazaret up" does
this automatically after an erasure.`,
		Example: "  lazaret server erase /var/lib/nats && nats-server -c n1.conf",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			erased, err := natsserver.EraseStore(cmd.Context(), a.Conn.Data, args[0])
			left := false
			for _, e := range erased {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %d deleted messages overwritten in %d block files\n", e.Stream, e.Messages,
					e.Files)
				if e.Left != "" {
					left = true
					fmt.Fprintf(cmd.OutOrStdout(), "  NOT ERASED: %s\n", e.Left)
				}
			}
			if err == nil && left {
				err = &cli.Exit{Code: cli.ExitIncomplete}
			}
			return err
		},
	}
}

func serverRewriteCommand(a *verb.App) *cobra.Command {
	var url string
	var replicas int
	var wait time.Duration
	c := &cobra.Command{
		Use:   "rewrite",
		Short: "Replace all stream replicas of a cluster by new ones without deleted messages",
		Long: `Replace the files and Raft logs of every replica of the three streams. The servers of a
cluster leave deleted messages of encrypted streams in both, so "lazaret audit forget"
reports them as left. A new replica gets only the existing messages.

Each stream in turn is scaled to one replica and back, moved to another leader, and scaled
to one and back again. The streams stay available, and messages keep their sequences. While
a stream has one replica, the loss of that server's disk loses the stream: make a backup
first. Proposals whose deadline passes meanwhile are held.

If it is interrupted, run it again with --replicas. It needs the data folder with all keys.`,
		Example: "  lazaret server rewrite --data lz --url nats://n1:4222,nats://n2:4222,nats://n3:4222",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			if url == "" {
				return errors.New("give the servers' addresses with --url, as in --url nats://n1:4222,nats://n2:4222")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			nc, err := embedded.ConnectRole(a.Conn.Data, url, natsserver.RoleReplicas)
			if err != nil {
				return err
			}
			defer nc.Close()
			done, err := natsserver.RewriteReplicas(ctx, nc, replicas, func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) })
			for _, d := range done {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %d replicas replaced, first on all servers but %s, then on all but %s\n",
					d.Stream, d.Replicas, d.First, d.Second)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&url, "url", "", "`URLS` of the servers for clients, separated by commas")
	f.IntVar(&replicas, "replicas", 0, "final number of replicas of each stream (default unchanged)")
	f.DurationVar(&wait, "wait", time.Hour, "the time limit")
	return c
}

func serverInitCommand(a *verb.App) *cobra.Command {
	var cfg embedded.Config
	var url string
	var wait time.Duration
	c := &cobra.Command{
		Use:   "init",
		Short: "Make streams, keys and credentials for separate servers, and activate the first rules and policy",
		Long: `Connect to servers with a configuration of "lazaret server config" from this data
folder. Make the streams, the keys of operator and auditor, and a credential and NATS
context for each daemon. Sign the first rules and policy and publish them to the intake.
Existing rules and policies stay, so the command can be repeated.

The data folder then contains all secrets of the installation. Give each daemon only its
own part ("lazaret server part"), and keep the rest offline.`,
		Example: "  lazaret server init --data lz --url nats://n1:4222,nats://n2:4222,nats://n3:4222 --replicas 3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Conn.Resolve()
			if url == "" {
				return errors.New("give the servers' addresses with --url, as in --url nats://n1:4222,nats://n2:4222")
			}
			if r := cfg.Storage.Replicas; r < 1 || r > 5 || r%2 == 0 {
				return fmt.Errorf("--replicas %d: use 1, 3 or 5", r)
			}
			if n := cfg.Storage.IntakePerAgent; n != 0 && n < streams.LeastPerAgent {
				return fmt.Errorf("--intake-per-agent %d: use at least %d, two messages of the largest size", n,
					streams.LeastPerAgent)
			}
			cfg.Data = a.Conn.Data
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			if err := embedded.Init(ctx, cfg, url); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "streams with %d replicas, credentials in %s, contexts in %s\n\nnow start these, "+
				"on the same or on separate machines:\n", cfg.Storage.Replicas,
				natsserver.CredsFile(cfg.Data, "*"), natsserver.ContextFile(cfg.Data, "*"))
			for _, d := range []string{"ingest", "sentinels", "arbiter", "auditor"} {
				fmt.Fprintf(cmd.OutOrStdout(), "  %s --data %s\n", d, cfg.Data)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&url, "url", "", "`URLS` of the servers for clients, separated by commas")
	f.IntVar(&cfg.Storage.Replicas, "replicas", 1, "replicas of each stream: 1, 3 or 5")
	f.Int64Var(&cfg.Storage.LedgerBytes, "ledger-bytes", 0,
		"size limit of the ledger, in bytes (default: the disk)")
	f.Int64Var(&cfg.Storage.IntakeBytes, "intake-bytes", streams.IntakeBytes, "size limit of the intake, in bytes")
	f.Int64Var(&cfg.Storage.IntakePerSubject, "intake-per-subject", streams.IntakePerSubject,
		"maximum number of messages of one agent, kind and origin that wait in the intake; further ones are refused")
	f.Int64Var(&cfg.Storage.IntakePerAgent, "intake-per-agent", 0,
		"maximum bytes of one agent that wait in the intake; ingest rejects the excess (default: an eighth of the intake)")
	f.DurationVar(&wait, "wait", time.Minute, "time limit of the command")
	return c
}
