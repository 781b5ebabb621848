package policy

import (
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
)

// A reading verb at the beginning can be a noun, and a name can be nothing but nouns.
func TestAVerbAfterANounActsAndNounsAloneRead(t *testing.T) {
	p := shipped(t)
	for level, names := range map[beliefs.Level]string{
		beliefs.L1: `okta.logs jira.sprint_report git.blame docusign.envelope_status okta.system_logs jira.issues order_logs job_logs
			crm.account_summary kubernetes.pods github.repo_branches sales_report usage_reports access_log monitor_status
			check_weather track_shipment monitor.list_rules count_users domain.whois json.parse
			get_lock view_page check_door_lock list_triggers sentry.project_issues hr.employee_holidays aws.instances_overview`,
		beliefs.L3: `get_mute_status datadog.monitor_mute track_shipment_reroute monitor_unmute alert_acknowledge
			review_dismiss test_requeue list_reopen query_relabel datadog.monitor_resize monitor_mute_all ticket.reopen
			monitor_close monitor_close_all list_close track_close`,
		beliefs.L4: `check_void build_log access_grant system_wipe count_expire view_forget invoice_void post_reports user_report incident_report bug.report
			scramble.history cook_report payments orders.cancel monitor_delete track_payment_reroute order_reroute
			alarm_mute logs_mute alert_snooze envelope_send envelope_void sprint_close_and_notify users.invite logs_purge email.message
			list_send check_pay track_refund slack.reports_publish post.orders post/issues DELETE/users charge.deals
			order_packages order_instances order_clusters bill_instances bid_campaigns claim_deals offer_deals issue_releases
			loan_vehicles contract_vendors shop.order_items contract_for_vendors page_users
			check_rerun check_trigger check_replay monitor_drain monitor_scale monitor_page list_lock view_trigger check_lock`,
	} {
		for name := range strings.FieldsSeq(names) {
			if c := p.Classify(name, nil, "p", "a"); c.Level != level {
				t.Errorf("%s is %s by %s, want %s", name, c.Level, c.Entry, level)
			}
		}
	}
}
