package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/streams"
)

// cluster is three nats-servers and two processes of each daemon.
type cluster struct {
	*fleet
	confs map[string]string
}

func (c *cluster) up(name string) {
	c.t.Helper()
	if conf, ok := c.confs[name]; ok {
		c.procs[name] = start(c.t, "Server is ready", "nats-server", "-c", conf)
		return
	}
	prog, second, _ := strings.Cut(name, "/")
	args := []string{"--data", c.data, "--takeover", "1s", "--state", filepath.Join(c.data, "state", prog+second)}
	if prog == "auditor" {
		args = append(args[:2], "--dir", filepath.Join(c.data, "audit"+second))
	} else if second != "" {
		args = append(args, "--standby")
	}
	c.procs[name] = start(c.t, "ready", prog, args...)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if out, err := exec.Command("go", "build", "-o", bin+"/", "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("building nats-server: %v\n%s", err, out)
	}
	os.Rename(filepath.Join(bin, "v2"), filepath.Join(bin, "nats-server")) // as older toolchains name it
	c := &cluster{&fleet{t: t, data: t.TempDir(), procs: make(map[string]*process)}, make(map[string]string)}
	var clients, routes []string
	for range 3 {
		clients, routes = append(clients, freePort(t)), append(routes, freePort(t))
	}
	for i := range clients {
		name := fmt.Sprintf("n%d", i+1)
		c.confs[name] = filepath.Join(c.data, name+".conf")
		must(t, c.data, "server", "config", "--name", name, "--listen", clients[i], "--store", filepath.Join(c.data, name), "--cluster-listen", routes[i],
			"--routes", "nats://"+strings.Join(routes, ",nats://"), "-o", c.confs[name])
		c.names = append(c.names, name)
	}
	for _, n := range c.names {
		c.up(n)
	}
	must(t, c.data, "server", "init", "--url", "nats://"+strings.Join(clients, ",nats://"), "--replicas", "3")
	for _, d := range []string{"ingest", "sentinels", "arbiter", "auditor"} {
		for _, second := range []string{"", "/2"} {
			c.names = append(c.names, d+second)
			c.up(d + second)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := embedded.AwaitShipped(ctx, connect(t, c.data, "operator")); err != nil {
		t.Fatal(err)
	}
	return c
}

// Within how long verdicts are there again. Streams whose leader was killed wait
// for an election: nats-server begins one 4 to 9 s after it last heard the leader
// (raft.go, minElectionTimeoutDefault and maxElectionTimeoutDefault), which cannot
// be configured, and a pipeline needs the leaders of two streams and of JetStream.
const (
	daemonResumes = 5 * time.Second
	serverResumes = 30 * time.Second
)

// Killing any server or daemon of a cluster loses nothing, and verdicts come
// again: within five seconds after a daemon, after an election after a server.
func TestAClusterGoesOnWithoutAnyOfItsProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED in short mode: three servers and eight daemons")
	}
	c := newCluster(t)
	js, err := jetstream.New(connect(t, c.data, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
		st, err := js.Stream(t.Context(), name)
		if err != nil || st.CachedInfo().Config.Replicas != 3 || len(st.CachedInfo().Cluster.Replicas) != 2 {
			t.Fatalf("stream %s: %v, %+v", name, err, st)
		}
	}
	asker, err := client.New(connect(t, c.data, "agent"), "demo", "agent", client.WithRetry(client.Retry{}))
	if err != nil {
		t.Fatal(err)
	}
	const total = 3000
	l := startLoad(t, connect(t, c.data, "agent"), total)
	resumed := map[string]time.Duration{}
	for k, name := range c.names {
		waitFor(t, l, int64(total*k/(len(c.names)+1)))
		c.procs[name].kill()
		killed := time.Now()
		for asked := 0; ; asked++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			a := read("kills")
			a.ID = fmt.Sprintf("after-%d-%d", k, asked)
			_, err := asker.Decide(ctx, a)
			cancel()
			if err == nil {
				break
			}
			if time.Since(killed) > 2*serverResumes {
				t.Fatalf("no verdict within %s of the end of %s: %v", 2*serverResumes, name, err)
			}
		}
		resumed[name] = time.Since(killed).Round(time.Millisecond)
		c.up(name)
	}
	if err := <-l.done; err != nil {
		t.Fatal(err)
	}
	for name, d := range resumed {
		most := daemonResumes
		if c.confs[name] != "" {
			most = serverResumes
		}
		if d > most {
			t.Errorf("after the end of %s verdicts came after %s", name, d)
		}
	}
	t.Log("verdicts came again after", resumed)
	account(t, c.data, total)
}
