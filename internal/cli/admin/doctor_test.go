package admin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/internal/status"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A stage that has never run does not answer and has no entries. Doctor must report it as missing all the same.
func TestDoctorMissesWhatHasNeverRun(t *testing.T) {
	wrong := func(s *status.Snapshot) (stages []string) {
		var cs checks
		cs.stages(s)
		for _, c := range cs {
			if !c.Good {
				stages = append(stages, c.What)
				if !strings.Contains(c.Text, "has run yet") {
					t.Errorf("%s: %s", c.What, c.Text)
				}
			}
		}
		return stages
	}
	ingest := &status.Process{Stage: "ingest", Ready: true}
	arbiter := &status.Process{Stage: "arbiter", Ready: true}
	missed := map[string]uint64{"verdict.silent.core": 3}
	if got := wrong(&status.Snapshot{Processes: []*status.Process{ingest}}); !slices.Equal(got, []string{"arbiter"}) {
		t.Errorf("without an arbiter: %v", got)
	}
	if got := wrong(&status.Snapshot{Processes: []*status.Process{ingest, arbiter}, Counts: missed}); !slices.Equal(got,
		[]string{"sentinel-core"}) {
		t.Errorf("without a group that is waited for: %v", got)
	}
	// A third-party group answers no requests; its entries show that it runs.
	if got := wrong(&status.Snapshot{Processes: []*status.Process{arbiter}, Counts: missed,
		Silent: []status.Silent{{Stage: "sentinel-core"}}}); got != nil {
		t.Errorf("a group of others: %v", got)
	}
}

func TestDoctorReportsWitnessesThatStopped(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		good    bool
	}{{0, true}, {uncosignedFor.Seconds() - 1, true}, {uncosignedFor.Seconds() + 1, false}} {
		var cs checks
		cs.stages(&status.Snapshot{Processes: []*status.Process{{Stage: "auditor", Ready: true,
			Log: &status.Log{Uncosigned: c.seconds}}}})
		if cs[0].What != "auditor" || cs[0].Good != c.good || strings.Contains(cs[0].Text, "witness") == c.good {
			t.Errorf("uncosigned for %v s: %+v", c.seconds, cs[0])
		}
	}
}

func TestPromiseA1DoctorReportsAClusterPortThatLetsServersIn(t *testing.T) {
	s, err := server.NewServer(&server.Options{ServerName: "open", Host: "127.0.0.1", Port: -1,
		Cluster: server.ClusterOpts{Name: "x", Host: "127.0.0.1", Port: -1}, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server did not start")
	}
	var cs checks
	cs.outside(t.Context(), []string{s.ClusterAddr().String()})
	if len(cs) != 1 || cs[0].Good || !strings.Contains(cs[0].Text, "can join and impersonate every agent") {
		t.Errorf("%+v", cs)
	}
}

func TestPromiseC24DoctorSaysThatTheDiskIsNearlyFull(t *testing.T) {
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	nc, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, room := range []bool{true, false} {
		if err := p.Server.Admit(room); err != nil {
			t.Fatal(err)
		}
		cs, err := diagnose(t.Context(), nc)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(cs, func(c check) bool { return c.What == "room" })
		if i < 0 || cs[i].Good != room {
			t.Errorf("room %v: %+v", room, cs)
		}
	}
}

func TestPromiseA12DoctorWarnsOfACredentialThatEndsWithinTheHour(t *testing.T) {
	data := t.TempDir()
	s, err := natsserver.Start(natsserver.Config{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	op := natsserver.Grant{Name: "operator", Role: natsserver.RoleOperator, Lasts: time.Hour}
	if err := s.Minter().Install(op, s.URL(), true); err != nil {
		t.Fatal(err)
	}
	var cs checks
	cs.credentials(data, time.Now())
	if len(cs) != 1 || !cs[0].Good {
		t.Errorf("%+v", cs)
	}
	cs = nil
	cs.credentials(data, time.Now().Add(50*time.Minute))
	if len(cs) != 1 || cs[0].Good || !strings.Contains(cs[0].Text, "operator") {
		t.Errorf("%+v", cs)
	}
	// Once the credential has expired, doctor still reports it, unless the credential has a successor.
	cs = nil
	cs.credentials(data, time.Now().Add(2*time.Hour))
	if len(cs) == 0 || cs[0].Good || !strings.Contains(cs[0].Text, "expired") || !strings.Contains(cs[0].Text, "operator") {
		t.Errorf("%+v", cs)
	}
	op.Lasts = 30 * 24 * time.Hour
	if err := s.Minter().Install(op, s.URL(), true); err != nil {
		t.Fatal(err)
	}
	cs = nil
	cs.credentials(data, time.Now().Add(2*time.Hour))
	if len(cs) != 1 || !cs[0].Good {
		t.Errorf("%+v", cs)
	}
}

// A credential that was made before the first start with an agents' account belongs to the account of the streams.
func TestDoctorReportsAgentsInTheAccountOfTheStreams(t *testing.T) {
	data := t.TempDir()
	s, err := natsserver.Start(natsserver.Config{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	file := filepath.Join(natsserver.KeysDir(data), "agents.pub")
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	m, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	g := natsserver.Grant{Name: "acme.bot", Lasts: 90 * 24 * time.Hour,
		Agent: &natsserver.Agent{Project: "acme", Name: "bot", Origins: beliefs.Origins()}}
	if err := m.Install(g, "", false); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	var cs checks
	cs.credentials(data, time.Now())
	if len(cs) == 0 || cs[0].Good || !strings.Contains(cs[0].Text, "acme.bot: ") ||
		!strings.Contains(cs[0].Text, "lazaret agent rotate") {
		t.Errorf("%+v", cs)
	}
	if _, err := s.Minter().Rotate("acme.bot", nil, false); err != nil {
		t.Fatal(err)
	}
	cs = nil
	cs.credentials(data, time.Now())
	if len(cs) != 1 || !cs[0].Good {
		t.Errorf("%+v", cs)
	}
}

// A server that is not strict reads an acknowledgement as a request: an agent that names the subject of a purge as the
// reply subject of its message purges the stream.
func TestDoctorReportsAServerThatAcceptsUnknownFields(t *testing.T) {
	for _, lax := range []bool{false, true} {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(),
			NoJetStreamStrict: lax, NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(10 * time.Second) {
			t.Fatal("nats-server did not start")
		}
		nc, err := nats.Connect(s.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js := wire.JetStream(nc)
		if err := strict(t.Context(), nc); (err != nil) != lax {
			t.Errorf("lax %t, without streams: %v", lax, err)
		}
		if err := wire.Ensure(t.Context(), js, wire.Storage{}); err != nil {
			t.Fatal(err)
		}
		sub := streams.LedgerSubject(0, streams.StageIngest)
		if _, err := js.Publish(t.Context(), sub, []byte("kept")); err != nil {
			t.Fatal(err)
		}
		// The second message's acknowledgement has sequence 2, so as a request it purges the first message.
		reply := "$JS.API.STREAM.PURGE." + streams.LedgerStream
		if err := nc.PublishMsg(&nats.Msg{Subject: sub, Reply: reply, Data: []byte("mine")}); err != nil {
			t.Fatal(err)
		}
		kept := uint64(2)
		if lax {
			kept = 1
		}
		natstest.Eventually(t, 10*time.Second, "a purge by an acknowledgement if the server is not strict", func() bool {
			st, err := js.Stream(t.Context(), streams.LedgerStream)
			return err == nil && st.CachedInfo().State.LastSeq == 2 && st.CachedInfo().State.Msgs == kept
		})
		if err := strict(t.Context(), nc); (err != nil) != lax {
			t.Errorf("lax %t: %v", lax, err)
		}
	}
}
