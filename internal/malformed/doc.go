// Package malformed tests HTTP servers with malformed requests and with clients that are
// killed in the middle of a request, while another caller goes on.
//
// It imports nothing of ours. Only tests import it. Begin reading with Target.Run.
package malformed
