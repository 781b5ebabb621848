package stage

import "testing"

// While messages wait, the intake may be created again. A sequence is then that of another message, which may have fewer
// events than the batch that was queued. Ingest must not end.
func TestAStoredMessageWithFewerEventsThanTheQueuedOneIsTakenAsRemoved(t *testing.T) {
	s := &intakeStage{}
	q := &queued{lean: true, size: 10, msg: &Message{Seq: 7, Index: 2}}
	s.fill(q, []*Message{{Seq: 7, Data: []byte("other")}})
	if q.lean || q.msg.Data != nil {
		t.Errorf("the event has the data %q", q.msg.Data)
	}
	if s.held != q.size {
		t.Errorf("%d bytes count as held, not %d", s.held, q.size)
	}
	early := &queued{lean: true, msg: &Message{Seq: 7, Index: 2}}
	if e := eventAt([]*Message{{Seq: 7}}, early.msg); e != nil {
		t.Errorf("event 2 is %+v", e)
	}
}
