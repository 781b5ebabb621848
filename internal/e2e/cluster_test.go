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

// cluster is a cluster of three NATS servers, with two processes of each daemon.
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
	if out, err := exec.Command("go", "build", "-o", bin+"/",
		"github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
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
		must(t, c.data, "server", "config", "--name", name, "--listen", clients[i], "--store", filepath.Join(c.data, name),
			"--cluster-listen", routes[i],
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

// awaitReplicas waits until all three replicas of each stream are up to date after a server was restarted. Before that,
// the kill of another server would stop the stream.
func (c *cluster) awaitReplicas(js jetstream.JetStream) {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	var last string
	for _, name := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
		for current := 0; current < 2; {
			if time.Now().After(deadline) {
				c.t.Fatalf("stream %s did not get its replicas back: %s\n%s", name, last, c.said())
			}
			ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
			st, err := js.Stream(ctx, name)
			cancel()
			current = 0
			if err != nil {
				last = err.Error()
				continue
			}
			last = fmt.Sprintf("%+v", st.CachedInfo().Cluster)
			if st.CachedInfo().Cluster.Leader == "" {
				continue
			}
			for _, r := range st.CachedInfo().Cluster.Replicas {
				if r.Current && !r.Offline {
					current++
				}
			}
			if current < 2 {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

// said returns the last lines of output of each process.
func (c *cluster) said() string {
	var b strings.Builder
	for _, name := range c.names {
		out := c.procs[name].output()
		if n := len(out); n > 1500 {
			out = "…" + out[n-1500:]
		}
		fmt.Fprintf(&b, "--- %s\n%s\n", name, out)
	}
	return b.String()
}

// The maximum times without verdicts after a kill. A stream whose leader was killed is not available until an election
// has ended: nats-server begins one 4 to 9 s after the last message of the leader (raft.go, minElectionTimeoutDefault
// and maxElectionTimeoutDefault), which cannot be configured. A pipeline needs the leaders of two streams and of
// JetStream.
const (
	daemonResumes = 5 * time.Second
	serverResumes = 30 * time.Second
)

// One server or daemon of a cluster after the other is killed. Nothing must be lost. Verdicts must resume within five
// seconds after the kill of a daemon, and after an election if a server was killed.
func TestAClusterGoesOnWithoutAnyOfItsProcesses(t *testing.T) {
	long(t)
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
	// The client repeats a proposal with the same id until it has a verdict. With a new id, it would have to wait
	// behind the earlier tries.
	asker, err := client.New(connect(t, c.data, "agent"), "demo", "agent",
		client.WithRetry(client.Retry{Tries: 1000, First: 20 * time.Millisecond, Most: 200 * time.Millisecond,
			Each: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	// Only a few events wait at a time, so that even a slow machine judges them within seconds. So the measured time is
	// that of the recovery, not that of a queue.
	const each = 100
	total := each * (len(c.names) + 1)
	l := startLoadOf(t, connect(t, c.data, "agent"), total, each/2, each)
	resumed := map[string]time.Duration{}
	for k, name := range c.names {
		began := time.Now()
		c.awaitReplicas(js)
		t.Logf("%s: replicas after %s", name, time.Since(began))
		began = time.Now()
		waitFor(t, l, int64(each*k+each/2))
		t.Logf("%s: load after %s", name, time.Since(began))
		l.most.Store(int64(each * (k + 2)))
		c.procs[name].kill()
		killed := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*serverResumes)
		a := read("kills")
		a.ID = fmt.Sprintf("after-%d", k)
		_, err := asker.Decide(ctx, a)
		cancel()
		if err != nil {
			t.Fatalf("no verdict within %s of the end of %s: %v\n%s", 2*serverResumes, name, err, c.said())
		}
		resumed[name] = time.Since(killed).Round(time.Millisecond)
		t.Logf("%s: resumed after %s", name, resumed[name])
		began = time.Now()
		c.up(name)
		t.Logf("%s: up after %s", name, time.Since(began))
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
