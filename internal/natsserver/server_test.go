package natsserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func startServer(t *testing.T, data string) *natsserver.Server {
	t.Helper()
	return startWith(t, natsserver.Config{Data: data, Listen: "127.0.0.1:0"})
}

// startWith starts a server and creates the streams of the pipeline.
func startWith(t *testing.T, cfg natsserver.Config) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	js, done := roleStreams(t, s, natsserver.RoleSetup)
	defer done()
	if err := wire.Ensure(context.Background(), js, wire.Storage{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// roleStreams opens a connection for a role inside the process and returns its JetStream interface. done closes the
// connection.
func roleStreams(t *testing.T, s *natsserver.Server, r natsserver.Role) (js jetstream.JetStream, done func()) {
	t.Helper()
	nc, err := s.Connect(r)
	if err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}

// user is a client with a credential. It records the permission errors that it gets.
type user struct {
	*nats.Conn
	js     jetstream.JetStream
	denied chan string
}

func connect(t *testing.T, s *natsserver.Server, creds []byte, inbox string) *user {
	t.Helper()
	u := &user{denied: make(chan string, 100)}
	nc, err := nats.Connect(s.URL(), nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				u.denied <- err.Error()
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	u.Conn = nc
	if u.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return u
}

// refused waits until the client has got a permission error about subject.
func (u *user) refused(t *testing.T, subject string) {
	t.Helper()
	for {
		select {
		case msg := <-u.denied:
			if strings.Contains(msg, `"`+subject+`"`) {
				return
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%q was not refused", subject)
			return
		}
	}
}

func agentCreds(t *testing.T, s *natsserver.Server, project, name string, origins ...beliefs.Origin) *user {
	t.Helper()
	creds, err := s.Minter().Agent(natsserver.Agent{Project: project, Name: name, Origins: origins})
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, s, creds, natsserver.AgentInbox(project, name))
}

// olderAgentCreds returns an agent with a credential as versions of Lazaret without an agents' account made them.
func olderAgentCreds(t *testing.T, s *natsserver.Server, project, name string, origins ...beliefs.Origin) *user {
	t.Helper()
	data := t.TempDir()
	keys := natsserver.KeysDir(data)
	if err := os.CopyFS(keys, os.DirFS(natsserver.KeysDir(s.Data()))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(keys, "agents.pub")); err != nil {
		t.Fatal(err)
	}
	m, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := m.Agent(natsserver.Agent{Project: project, Name: name, Origins: origins})
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, s, creds, natsserver.AgentInbox(project, name))
}

func roleUser(t *testing.T, s *natsserver.Server, r natsserver.Role) *user {
	t.Helper()
	creds, err := s.Minter().Role(r)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, s, creds, r.InboxPrefix())
}

func TestAnAgentSpeaksForItselfAndNobodyElse(t *testing.T) {
	s := startServer(t, t.TempDir())
	a := agentCreds(t, s, "acme", "bot", beliefs.OriginTool, beliefs.OriginAgent)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	for _, subject := range []string{"lz.in.acme.bot.obs.tool", "lz.in.acme.bot.mem.agent", "lz.in.acme.bot.act",
		"lz.in.acme.bot.recall"} {
		if _, err := a.js.Publish(ctx, subject, []byte("{}")); err != nil {
			t.Errorf("publishing to its own %s: %v", subject, err)
		}
	}
	for _, subject := range []string{
		"lz.in.acme.bot.obs.user",                     // another origin
		"lz.in.acme.bot.mem.user",                     //
		"lz.svc.remember.acme.bot.user",               //
		"lz.in.acme.other.obs.tool",                   // another agent
		"lz.svc.decide.acme.other",                    //
		"lz.in.rival.bot.obs.tool",                    // another project
		"lz.in.3.acme.bot.obs.tool",                   // past the transform
		"lz.ctl.3",                                    // an operator's command
		"lz.ledger.3.ingest",                          // the ledger
		"lz.live.acme.alert.high.x",                   // the live feed
		"lz.svc.query.beliefs.3",                      // the operator's queries
		"lz.svc.resolve.acme.bot",                     //
		"$JS.API.STREAM.PURGE.LZ_INTAKE",              // the streams themselves
		"$JS.API.STREAM.DELETE.LZ_LEDGER",             //
		"$JS.API.STREAM.UPDATE.LZ_LEDGER",             //
		"$JS.API.STREAM.MSG.DELETE.LZ_LEDGER",         //
		"$JS.API.STREAM.MSG.GET.LZ_LEDGER",            // reading what others said
		"$JS.API.DIRECT.GET.LZ_LEDGER",                //
		"$JS.API.CONSUMER.CREATE.LZ_INTAKE.x.lz.in.>", //
		"$JS.API.CONSUMER.CREATE.LZ_LEDGER",           //
		"$JS.API.STREAM.CREATE.SPY",                   //
		"_INBOX.acme.other.answer",                    // answers to others
		"_INBOX_LZ.operator.answer",                   //
		"$SRV.PING",                                   //
	} {
		if err := a.PublishRequest(subject, a.NewInbox(), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		a.refused(t, subject)
	}
	for _, subject := range []string{"lz.in.>", "lz.live.>", "lz.live.acme.>", "lz.live.acme.alert.>", "lz.ledger.>",
		"lz.svc.>", "lz.svc.decide.acme.bot",
		"_INBOX.>", "_INBOX.acme.other.>", "_INBOX_LZ.>", "$JS.>", ">", "lz.live.acme.hold.other.>",
		"lz.live.rival.hold.bot.>"} {
		if _, err := a.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		a.refused(t, subject)
	}
	if _, err := a.SubscribeSync("lz.live.acme.hold.bot.>"); err != nil {
		t.Fatal(err)
	}
	if err := a.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case msg := <-a.denied:
		t.Errorf("waiting for its own holds was refused: %s", msg)
	default:
	}
}

func TestAServiceAnswersToInboxesOnly(t *testing.T) {
	s := startServer(t, t.TempDir())
	svc := roleUser(t, s, natsserver.RoleService)
	if _, err := svc.Subscribe("lz.svc.decide.*.*", func(m *nats.Msg) {
		svc.PublishMsg(&nats.Msg{Subject: m.Reply, Data: []byte("{}")})
	}); err != nil {
		t.Fatal(err)
	}
	if err := svc.Flush(); err != nil {
		t.Fatal(err)
	}
	a := agentCreds(t, s, "acme", "bot", beliefs.OriginTool)
	if _, err := a.Request("lz.svc.decide.acme.bot", []byte("{}"), 5*time.Second); err != nil {
		t.Fatalf("an honest request: %v", err)
	}
	old := olderAgentCreds(t, s, "acme", "bot", beliefs.OriginTool)
	for _, reply := range []string{"lz.in.acme.other.mem.user", "lz.ledger.3.arbiter", "lz.ctl.3",
		"$JS.API.STREAM.PURGE.LZ_LEDGER", "lz.live.acme.verdict.allow", "lz.svc.decide.acme.other"} {
		if err := old.PublishRequest("lz.svc.decide.acme.bot", reply, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		svc.refused(t, reply)
	}
}

// A client may name any reply subject when it publishes. JetStream sends the acknowledgement there with the server's
// own permissions. It must not get out of the account of the agents.
func TestAnAgentDirectsNoAcknowledgementToAStage(t *testing.T) {
	s := startServer(t, t.TempDir())
	a, svc := agentCreds(t, s, "acme", "bot", beliefs.OriginTool), roleUser(t, s, natsserver.RoleService)
	requests, err := svc.SubscribeSync("lz.svc.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	targets := []string{"lz.in.acme.victim.obs.user", "lz.in.acme.bot.act", "lz.ledger.3.ingest", "lz.ledger.3.arbiter",
		"lz.ctl.3", "lz.live.acme.verdict.allow", "lz.live.acme.hold.victim.h.approved", "lz.svc.decide.acme.victim",
		"lz.svc.prove.acme.victim", streams.EraseSubject, streams.StatusSubject, "$JS.API.STREAM.INFO.LZ_LEDGER",
		"$JS.API.STREAM.PURGE.LZ_LEDGER"}
	for _, reply := range targets {
		for _, expected := range []string{"", "987654321"} { // the answers are an acknowledgement and an error
			m := nats.NewMsg("lz.in.acme.bot.obs.tool")
			m.Reply, m.Data = reply, []byte(`{"id":"x"}`)
			if expected != "" {
				m.Header.Set(jetstream.ExpectedLastSeqHeader, expected)
			}
			if err := a.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	// JetStream answers in the order of the messages. So all answers above were sent before this acknowledgement.
	ack, err := a.js.Publish(ctx, "lz.in.acme.bot.obs.tool", []byte(`{"id":"last"}`))
	if err != nil {
		t.Fatal(err)
	}
	if ack.Sequence != uint64(len(targets)+1) {
		t.Errorf("the intake has %d messages, want the agent's %d", ack.Sequence, len(targets)+1)
	}
	for role, name := range map[natsserver.Role]string{natsserver.RoleArbiter: streams.LedgerStream,
		natsserver.RoleApprover: streams.LiveStream, natsserver.RoleIngest: streams.IntakeStream} {
		st, err := roleUser(t, s, role).js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		want := uint64(0)
		if name == streams.IntakeStream {
			want = ack.Sequence
		}
		if n := st.CachedInfo().State.LastSeq; n != want {
			t.Errorf("%s has %d messages, want %d", name, n, want)
		}
	}
	if err := svc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := requests.Pending(); n != 0 || err != nil {
		t.Errorf("the services got %d requests, %v", n, err)
	}
}

// An agent's credential of an older version belongs to the account of the streams. With it, the acknowledgement gets
// into the intake as a message of another agent. Ingest must recognize it.
func TestAnAcknowledgementSteeredToAnotherAgentIsNoEvent(t *testing.T) {
	s := startServer(t, t.TempDir())
	a := olderAgentCreds(t, s, "acme", "bot", beliefs.OriginTool)
	if err := a.PublishRequest("lz.in.acme.bot.obs.tool", "lz.in.acme.victim.obs.user", []byte(`{"id":"x"}`)); err != nil {
		t.Fatal(err)
	}
	in := roleUser(t, s, natsserver.RoleIngest)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	st, err := in.js.Stream(ctx, streams.IntakeStream)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "the acknowledgement in the intake", func() bool {
		i, err := st.Info(ctx)
		return err == nil && i.State.LastSeq >= 2
	})
	c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(2, jetstream.FetchMaxWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	steered := 0
	for m := range batch.Messages() {
		addr, err := streams.ParseIntake(m.Subject())
		if err != nil {
			t.Fatal(err)
		}
		if addr.Agent != "victim" {
			continue
		}
		steered++
		_, err = streams.ParseEvent(addr, "", m.Data(), 0)
		var r *streams.RejectError
		if !errors.As(err, &r) || r.Code != streams.CodeNotEvent {
			t.Errorf("the acknowledgement %q was read as an event: %v", m.Data(), err)
		}
	}
	if steered != 1 {
		t.Errorf("%d acknowledgements are in the intake, want 1", steered)
	}
}

func TestEveryStageWritesItsOwnSubjectOnly(t *testing.T) {
	s := startServer(t, t.TempDir())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	own := map[natsserver.Role]string{
		natsserver.RoleIngest:            "lz.ledger.3.ingest",
		natsserver.RoleArbiter:           "lz.ledger.3.arbiter",
		natsserver.SentinelRole("core"):  "lz.ledger.3.sentinel-core",
		natsserver.SentinelRole("other"): "lz.ledger.3.sentinel-other",
		natsserver.RoleAuditor:           "",
		natsserver.RoleFront:             "",
		natsserver.RoleOperator:          "",
		natsserver.RoleApprover:          "",
		natsserver.RoleService:           "",
		natsserver.RoleJoint:             "lz.ledger.3.joint",
		natsserver.RoleFeed:              "",
		natsserver.RoleViewer:            "",
		natsserver.RoleReplay:            "",
	}
	for role, mine := range own {
		u := roleUser(t, s, role)
		for _, subject := range own {
			if subject == "" {
				continue
			}
			if subject == mine {
				if _, err := u.js.Publish(ctx, subject, []byte("{}")); err != nil {
					t.Errorf("%s cannot write %s: %v", role, subject, err)
				}
				continue
			}
			if err := u.Publish(subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			u.refused(t, subject)
		}
		if role != natsserver.RoleIngest {
			if err := u.Publish("$JS.API.STREAM.PURGE.LZ_INTAKE", nil); err != nil {
				t.Fatal(err)
			}
			u.refused(t, "$JS.API.STREAM.PURGE.LZ_INTAKE")
		}
		for _, api := range []string{"PURGE.LZ_LEDGER", "DELETE.LZ_LEDGER", "UPDATE.LZ_LEDGER", "MSG.DELETE.LZ_LEDGER"} {
			if err := u.Publish("$JS.API.STREAM."+api, nil); err != nil {
				t.Fatal(err)
			}
			u.refused(t, "$JS.API.STREAM."+api)
		}
	}
}

func TestRolesThatReadCanRead(t *testing.T) {
	s := startServer(t, t.TempDir())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for role, reads := range map[natsserver.Role][]string{
		natsserver.RoleIngest:           {streams.IntakeStream, streams.LedgerStream},
		natsserver.RoleArbiter:          {streams.LedgerStream},
		natsserver.SentinelRole("core"): {streams.LedgerStream},
		natsserver.RoleAuditor:          {streams.LedgerStream},
		natsserver.RoleFront:            {streams.LedgerStream},
		natsserver.RoleOperator:         {streams.LedgerStream, streams.LiveStream},
		natsserver.RoleApprover:         {streams.LiveStream},
	} {
		u := roleUser(t, s, role)
		for _, name := range reads {
			st, err := u.js.Stream(ctx, name)
			if err != nil {
				t.Errorf("%s looking up %s: %v", role, name, err)
				continue
			}
			c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
			if err != nil {
				t.Errorf("%s reading %s: %v", role, name, err)
				continue
			}
			if _, err := c.Fetch(1, jetstream.FetchMaxWait(100*time.Millisecond)); err != nil {
				t.Errorf("%s fetching from %s: %v", role, name, err)
			}
		}
		select {
		case msg := <-u.denied:
			t.Errorf("%s was refused what it needs: %s", role, msg)
		default:
		}
	}
}

func TestASecondStartFindsItsKeysAndData(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	creds, err := s.Minter().Agent(natsserver.Agent{Project: "acme", Name: "bot",
		Origins: []beliefs.Origin{beliefs.OriginTool}})
	if err != nil {
		t.Fatal(err)
	}
	a := connect(t, s, creds, natsserver.AgentInbox("acme", "bot"))
	if _, err := a.js.Publish(context.Background(), "lz.in.acme.bot.obs.tool",
		[]byte("a secret that is easy to find")); err != nil {
		t.Fatal(err)
	}
	if _, err := natsserver.Start(natsserver.Config{Data: data, Listen: "127.0.0.1:0"}); !errors.Is(err,
		natsserver.ErrInUse) {
		t.Errorf("a second server on the folder: %v, want ErrInUse", err)
	}
	a.Close()
	s.Shutdown()
	err = filepath.WalkDir(filepath.Join(data, "jetstream"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "easy to find") {
			t.Errorf("%s holds plaintext", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s = startServer(t, data)
	a = connect(t, s, creds, natsserver.AgentInbox("acme", "bot"))
	ack, err := a.js.Publish(context.Background(), "lz.in.acme.bot.obs.tool", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if ack.Sequence != 2 {
		t.Errorf("the second start continues at %d, want 2", ack.Sequence)
	}
	for _, f := range []string{"operator.nk", "signing.nk", "system.nk", "jetstream.key"} {
		fi, err := os.Stat(filepath.Join(natsserver.KeysDir(data), f))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f, fi.Mode())
		}
	}
}

func TestAgentsNeedLegalNamesAndOrigins(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, a := range []natsserver.Agent{
		{Project: "acme", Name: "bot"},
		{Project: "*", Name: "bot", Origins: []beliefs.Origin{"tool"}},
		{Project: "acme", Name: ">", Origins: []beliefs.Origin{"tool"}},
		{Project: "acme.x", Name: "bot", Origins: []beliefs.Origin{"tool"}},
		{Project: "acme", Name: "bot", Origins: []beliefs.Origin{"oracle"}},
		{Project: streams.SystemProject, Name: "bot", Origins: []beliefs.Origin{"tool"}},
	} {
		if _, err := s.Minter().Agent(a); err == nil {
			t.Errorf("%+v got a credential", a)
		}
	}
}

// An agent with the longest possible names has the longest possible credential. It must be able to connect.
func TestAnAgentWithTheLongestNamesConnects(t *testing.T) {
	s := startServer(t, t.TempDir())
	a := natsserver.Agent{Project: strings.Repeat("p", streams.MaxIDLen), Name: strings.Repeat("a", streams.MaxIDLen),
		Origins: beliefs.Origins()}
	creds, err := s.Minter().Agent(a)
	if err != nil {
		t.Fatal(err)
	}
	u := connect(t, s, creds, natsserver.AgentInbox(a.Project, a.Name))
	if err := u.Flush(); err != nil {
		t.Error(err)
	}
}

func TestAViewerOfAProjectReachesItsOwnProjectOnly(t *testing.T) {
	s := startServer(t, t.TempDir())
	u := roleUser(t, s, natsserver.ViewerOf("acme"))
	for _, subject := range []string{"lz.in.acme.a.obs.user", "lz.ctl.0", "lz.ledger.0.arbiter", "lz.svc.resolve.acme.h",
		"lz.svc.query.beliefs.3", "lz.live.acme.alert.high.r", "$JS.API.STREAM.INFO.LZ_LIVE",
		"$JS.API.STREAM.MSG.GET.LZ_LIVE", "$JS.API.DIRECT.GET.LZ_LEDGER", "$JS.API.CONSUMER.CREATE.LZ_LIVE.viewer-acme",
		"$JS.API.CONSUMER.DURABLE.CREATE.LZ_LIVE.viewer-acme", "$JS.API.CONSUMER.DELETE.LZ_LIVE.viewer-acme",
		"$JS.API.CONSUMER.MSG.NEXT.LZ_LIVE.viewer-demo", "$JS.ACK.LZ_LIVE.viewer-demo.1.1.1.1.1"} {
		if err := u.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		u.refused(t, subject)
	}
	for _, subject := range []string{"lz.live.>", "lz.live.demo.alert.>", "_INBOX_LZ.viewer-demo.>", "_INBOX_LZ.viewer.>"} {
		if _, err := u.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		u.refused(t, subject)
	}
}
