package keys

import (
	"strings"
	"testing"
	"time"

	"lazaret/streams"
)

func TestOnlyAnOperatorsCommandOpens(t *testing.T) {
	var trust Trust
	operator, operatorPublic := pair(t, "olga")
	approver, approverPublic := pair(t, "anna")
	pin(t, &trust, operatorPublic, RoleOperator)
	pin(t, &trust, approverPublic, RoleApprover)
	c := streams.Command{
		Do: streams.DoActivatePolicy, Digest: streams.Digest([]byte("x")), Engine: streams.EngineVersion,
		ID: "1", Issued: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
	}
	sign := func(private string) []byte { return signWith(t, private, c.Text()) }
	if got, signer, err := streams.OpenCommand(sign(operator), trust.Verifiers(RoleOperator)); err != nil ||
		signer != "olga" || got != c {
		t.Errorf("%v, %q, %v", got, signer, err)
	}
	if _, _, err := streams.OpenCommand(sign(approver), trust.Verifiers(RoleOperator)); err == nil {
		t.Error("an approver activated a policy")
	}
	forged := strings.Replace(string(sign(operator)), streams.DoActivatePolicy, streams.DoActivateRules, 1)
	if _, _, err := streams.OpenCommand([]byte(forged), trust.Verifiers(RoleOperator)); err == nil {
		t.Error("an altered command opened")
	}
}
