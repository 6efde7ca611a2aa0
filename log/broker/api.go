package broker

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one kind of request. Versions from min to max are named to clients; those below serve are named only because
// old clients look for them before they use a feature: librdkafka up to 2.11 sends batches uncompressed to a broker
// without Produce 0, without a word.
type api struct {
	min, max, serve int16
	need            right
	handle          func(s *Server, r *request) answer
}

// right is what a user needs for a request as a whole.
type right int8

const (
	anybody right = iota // also before authentication
	reader
	writer
)

// apis is the table of what is served. It is about that of Kafka 3.9, without what only brokers send each other,
// without telemetry, and without DescribeTopicPartitions, for which Java clients have a better way.
func apis() map[int16]api {
	return map[int16]api{
		0:  {0, 11, 3, writer, (*Server).produce},
		1:  {4, 17, 4, reader, (*Server).fetch},
		2:  {1, 9, 1, reader, (*Server).listOffsets},
		3:  {0, 12, 0, reader, (*Server).metadata},
		8:  {2, 9, 2, reader, (*Server).offsetCommit},
		9:  {1, 9, 1, reader, (*Server).offsetFetch},
		10: {0, 6, 0, reader, (*Server).findCoordinator},
		11: {0, 9, 0, reader, (*Server).joinGroup},
		12: {0, 4, 0, reader, (*Server).heartbeat},
		13: {0, 5, 0, reader, (*Server).leaveGroup},
		14: {0, 5, 0, reader, (*Server).syncGroup},
		15: {0, 5, 0, reader, (*Server).describeGroups},
		16: {0, 5, 0, reader, (*Server).listGroups},
		17: {0, 1, 0, anybody, (*Server).saslHandshake},
		18: {0, 4, 0, anybody, (*Server).apiVersions},
		19: {2, 7, 2, writer, (*Server).createTopics},
		20: {1, 6, 1, writer, (*Server).deleteTopics},
		21: {0, 2, 0, writer, (*Server).deleteRecords},
		22: {0, 4, 0, writer, (*Server).initProducerID},
		23: {2, 4, 2, reader, (*Server).offsetForLeaderEpoch},
		24: {0, 3, 0, writer, (*Server).addPartitionsToTxn},
		25: {0, 3, 0, writer, (*Server).addOffsetsToTxn},
		26: {0, 3, 0, writer, (*Server).endTxn},
		27: {0, 1, 0, writer, (*Server).writeTxnMarkers},
		28: {0, 4, 0, writer, (*Server).txnOffsetCommit},
		32: {1, 4, 1, reader, (*Server).describeConfigs},
		33: {0, 2, 0, writer, (*Server).alterConfigs},
		35: {1, 4, 1, reader, (*Server).describeLogDirs},
		36: {0, 2, 0, anybody, (*Server).saslAuthenticate},
		37: {0, 3, 0, writer, (*Server).createPartitions},
		42: {0, 2, 0, reader, (*Server).deleteGroups},
		44: {0, 1, 0, writer, (*Server).incrementalAlterConfigs},
		46: {0, 0, 0, reader, (*Server).listReassignments},
		47: {0, 0, 0, reader, (*Server).offsetDelete},
		60: {0, 1, 0, reader, (*Server).describeCluster},
		61: {0, 0, 0, reader, (*Server).describeProducers},
		65: {0, 0, 0, reader, (*Server).describeTransactions},
		66: {0, 2, 0, reader, (*Server).listTransactions},
		68: {0, 1, 0, reader, (*Server).consumerHeartbeat},
		69: {0, 1, 0, reader, (*Server).describeConsumers},
	}
}

// apiVersions names the table. It is the one request that is answered in a version that the client did not ask for.
func (s *Server) apiVersions(r *request) answer {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = r.version
	for key, a := range s.apis {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: a.min, MaxVersion: a.max})
	}
	slices.SortFunc(resp.ApiKeys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return now(resp)
}

// refuseVersion answers an ApiVersions request above what is known, as Kafka does: in version 0, with the versions of
// this one request, on a connection that stays open.
func (s *Server) refuseVersion() answer {
	const key = 18
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: key, MinVersion: s.apis[key].min, MaxVersion: s.apis[key].max}}
	return now(resp)
}
