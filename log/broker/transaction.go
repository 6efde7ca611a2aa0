package broker

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
)

// Limits of transactions of clients.
const (
	maxTransactionTimeout = 15 * time.Minute // Kafka's transaction.max.timeout.ms
	maxTransactions       = 50_000           // transactional ids that are known at one time
	expiryInterval        = time.Second
	idleTransactional     = 24 * time.Hour // after which an id without a transaction is forgotten; its epoch is not
)

// transactions keeps the transactional producers that began an epoch since the server was opened. Those of before have
// to begin a new one: what they had open was aborted when the log was opened.
type transactions struct {
	s   *Server
	mu  sync.Mutex
	all map[string]*transaction
}

// transaction is one transactional id and what it has open. Its lock is held for the length of an append or of its end,
// so that no batch slips in behind the end.
type transaction struct {
	id string

	mu         sync.Mutex
	known      bool // an epoch was begun here
	producer   disk.Outside
	timeout    time.Duration
	open       bool
	started    time.Time
	touched    time.Time
	deciding   bool // a commit began whose outcome is not known yet: it can only be tried again
	broken     bool // an administrator aborted a part of what is open: the rest can only be aborted
	last       ended
	partitions map[log.TopicPartition]bool
	groups     map[string]bool
	offsets    map[string]map[log.TopicPartition]disk.Commit
}

// ended is how the last transaction of an epoch ended; a client may ask for the same end again.
type ended int8

const (
	nothing ended = iota
	committed
	aborted
)

func newTransactions(s *Server) *transactions {
	return &transactions{s: s, all: map[string]*transaction{}}
}

// named returns a transactional id with its lock held; nil if it is not known and not to be made.
func (t *transactions) named(id string, create bool) (*transaction, error) {
	t.mu.Lock()
	x := t.all[id]
	if x == nil && create {
		if len(t.all) >= maxTransactions {
			t.mu.Unlock()
			return nil, kerr.PolicyViolation
		}
		x = &transaction{id: id}
		t.all[id] = x
	}
	t.mu.Unlock()
	if x != nil {
		x.mu.Lock()
		x.touched = time.Now()
	}
	return x, nil
}

// expire aborts transactions that are open for longer than they may, until the server closes.
func (t *transactions) expire() {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-t.s.closing:
			return
		case now := <-ticker.C:
			t.expireAt(now)
		}
	}
}

func (t *transactions) expireAt(now time.Time) {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.all))
	t.mu.Unlock()
	for _, x := range all {
		x.mu.Lock()
		switch {
		case x.open && !x.deciding && now.Sub(x.started) > x.timeout:
			t.s.logger.Info("a transaction was open for too long and is aborted", "transaction", x.id)
			if _, err := t.begin(x, nil); err != nil {
				t.s.logger.Warn("aborting a transaction", "transaction", x.id, "error", err)
			}
		case !x.open && now.Sub(x.touched) > idleTransactional:
			t.mu.Lock()
			delete(t.all, x.id)
			t.mu.Unlock()
			x.known = false
		}
		x.mu.Unlock()
	}
}

// begin aborts what an id has open and begins its next epoch.
func (t *transactions) begin(x *transaction, was *disk.Outside) (disk.Outside, error) {
	if x.open {
		if was != nil && *was != x.producer {
			return disk.Outside{}, kerr.ProducerFenced
		}
		if err := t.finish(x, x.deciding); err != nil {
			return disk.Outside{}, err
		}
	}
	next, err := t.s.journal.BeginEpoch(x.id, was)
	if err != nil {
		return next, err
	}
	x.known, x.producer, x.last = true, next, nothing
	return next, nil
}

// finish ends what is open. A commit that did not come to an end can only be finished as a commit.
func (t *transactions) finish(x *transaction, commit bool) error {
	switch {
	case x.deciding && !commit:
		return kerr.ConcurrentTransactions
	case x.broken && commit:
		return fmt.Errorf("%w: an administrator aborted a part of the transaction", kerr.InvalidTxnState)
	}
	x.deciding = commit
	err := t.s.journal.EndTransaction(disk.Ending{Transaction: x.id, Producer: x.producer, Commit: commit,
		Partitions: slices.Collect(maps.Keys(x.partitions)), Offsets: x.offsets})
	if err != nil {
		return err
	}
	x.open, x.deciding, x.broken, x.partitions, x.groups, x.offsets = false, false, false, nil, nil, nil
	x.last = aborted
	if commit {
		x.last = committed
	}
	return nil
}

// initProducerID gives out producer ids, and begins a new epoch of a transactional one.
func (s *Server) initProducerID(r *request) answer {
	req := r.message.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID == nil {
		resp.ProducerID, resp.ProducerEpoch = s.journal.NewProducerID(), 0
		return now(resp)
	}
	producer, err := s.initTransactional(r, req)
	if err != nil {
		resp.ErrorCode = fencedCode(r, err)
		return now(resp)
	}
	resp.ProducerID, resp.ProducerEpoch = producer.ID, producer.Epoch
	return now(resp)
}

// fencedCode is the code for a fenced producer, which older versions of a request know under another name.
func fencedCode(r *request, err error) int16 {
	code := codeOf(err)
	newest := map[kmsg.Key]int16{kmsg.InitProducerID: 4, kmsg.AddPartitionsToTxn: 2, kmsg.AddOffsetsToTxn: 2, kmsg.EndTxn: 2}
	if code == kerr.ProducerFenced.Code || code == kerr.InvalidProducerEpoch.Code {
		if first, ok := newest[kmsg.Key(r.key)]; ok && r.version >= first {
			return kerr.ProducerFenced.Code
		}
		return kerr.InvalidProducerEpoch.Code
	}
	return code
}

func (s *Server) initTransactional(r *request, req *kmsg.InitProducerIDRequest) (disk.Outside, error) {
	timeout := time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
	switch {
	case !r.c.session.may(s, writer):
		return disk.Outside{}, kerr.TransactionalIDAuthorizationFailed
	case *req.TransactionalID == "":
		return disk.Outside{}, kerr.InvalidRequest
	case timeout <= 0 || timeout > maxTransactionTimeout:
		return disk.Outside{}, kerr.InvalidTransactionTimeout
	}
	var was *disk.Outside
	if req.ProducerID >= 0 && r.version >= 3 {
		was = &disk.Outside{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	x, err := s.transactions.named(*req.TransactionalID, true)
	if err != nil {
		return disk.Outside{}, err
	}
	defer x.mu.Unlock()
	x.timeout = timeout
	return s.transactions.begin(x, was)
}

// check finds the producer of a request; its lock is held if there is no error.
func (t *transactions) check(id string, producer disk.Outside) (*transaction, error) {
	x, err := t.named(id, false)
	if err != nil || x == nil {
		return nil, kerr.InvalidProducerIDMapping
	}
	switch {
	case !x.known || x.producer.ID != producer.ID:
		err = kerr.InvalidProducerIDMapping
	case x.producer.Epoch != producer.Epoch:
		err = kerr.ProducerFenced
	}
	if err != nil {
		x.mu.Unlock()
		return nil, err
	}
	return x, nil
}

// begun notes that the producer has something open.
func (x *transaction) begun() error {
	switch {
	case x.deciding:
		return kerr.ConcurrentTransactions
	case x.broken:
		return kerr.InvalidTxnState
	}
	if !x.open {
		x.open, x.started, x.last = true, time.Now(), nothing
		x.partitions, x.groups = map[log.TopicPartition]bool{}, map[string]bool{}
		x.offsets = map[string]map[log.TopicPartition]disk.Commit{}
	}
	return nil
}

// addPartitions names the partitions that a transaction will write to.
func (s *Server) addPartitionsToTxn(r *request) answer {
	req := r.message.(*kmsg.AddPartitionsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	resp.Topics = []kmsg.AddPartitionsToTxnResponseTopic{}
	bad := map[log.TopicPartition]error{}
	var wanted []log.TopicPartition
	for _, t := range req.Topics {
		refused := s.mayWrite(r, t.Topic)
		for _, p := range t.Partitions {
			tp := log.TopicPartition{Topic: t.Topic, Partition: p}
			wanted = append(wanted, tp)
			if refused != nil {
				bad[tp] = refused
			} else if _, err := s.journal.Bounds(tp); err != nil {
				bad[tp] = err
			}
		}
	}
	all := s.transactions.add(req, wanted, len(bad) > 0)
	for _, t := range req.Topics {
		topic := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			part := kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p}
			switch err := bad[log.TopicPartition{Topic: t.Topic, Partition: p}]; {
			case err != nil:
				part.ErrorCode = codeOf(err)
			case all != nil:
				part.ErrorCode = fencedCode(r, all)
			case len(bad) > 0:
				part.ErrorCode = kerr.OperationNotAttempted.Code
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(resp)
}

func (t *transactions) add(req *kmsg.AddPartitionsToTxnRequest, tps []log.TopicPartition, refused bool) error {
	x, err := t.check(req.TransactionalID, disk.Outside{ID: req.ProducerID, Epoch: req.ProducerEpoch})
	if err != nil {
		return err
	}
	defer x.mu.Unlock()
	if refused {
		return nil
	}
	if err := x.begun(); err != nil {
		return err
	}
	for _, tp := range tps {
		x.partitions[tp] = true
	}
	return nil
}

// append appends a batch of a transaction that its partition was added to.
func (t *transactions) append(id *string, tp log.TopicPartition, v batch.View) (disk.Appended, error) {
	if id == nil {
		return disk.Appended{}, kerr.InvalidTxnState
	}
	owner := v.Producer()
	x, err := t.check(*id, disk.Outside{ID: owner.ID, Epoch: owner.Epoch})
	if err == kerr.ProducerFenced {
		err = kerr.InvalidProducerEpoch
	}
	if err != nil {
		return disk.Appended{}, err
	}
	defer x.mu.Unlock()
	if !x.open || x.deciding || x.broken || !x.partitions[tp] {
		return disk.Appended{}, fmt.Errorf("%w: the partition is not part of the transaction", kerr.InvalidTxnState)
	}
	return t.s.journal.AppendBatch(tp, v)
}

// addOffsetsToTxn names a group whose offsets a transaction will commit.
func (s *Server) addOffsetsToTxn(r *request) answer {
	req := r.message.(*kmsg.AddOffsetsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	if req.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		return now(resp)
	}
	x, err := s.transactions.check(req.TransactionalID, disk.Outside{ID: req.ProducerID, Epoch: req.ProducerEpoch})
	if err == nil {
		defer x.mu.Unlock()
		if err = x.begun(); err == nil {
			x.groups[req.Group] = true
		}
	}
	resp.ErrorCode = fencedCode(r, err)
	return now(resp)
}

// txnOffsetCommit stages offsets until the end of the transaction.
func (s *Server) txnOffsetCommit(r *request) answer {
	req := r.message.(*kmsg.TxnOffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	resp.Topics = []kmsg.TxnOffsetCommitResponseTopic{}
	commits := map[log.TopicPartition]disk.Commit{}
	refused := s.stageable(req)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			err := refused
			if err == nil {
				err = s.collect(commits, log.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Offset, p.Metadata)
			}
			topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: codeOf(err)})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	err := refused
	if err == nil {
		err = s.transactions.stage(req, commits)
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; err != nil && p.ErrorCode == 0 {
				p.ErrorCode = fencedCode(r, err)
			}
		}
	}
	return now(resp)
}

// stageable says why a group's offsets cannot be committed: a client of before version 3 says nothing of its
// membership, and is believed.
func (s *Server) stageable(req *kmsg.TxnOffsetCommitRequest) error {
	if req.Generation < 0 && req.MemberID == "" {
		if s.journal.HasConsumers(req.Group) {
			return kerr.GroupAuthorizationFailed
		}
		return nil
	}
	err := s.mayCommit(req.Group, req.MemberID, req.InstanceID, req.Generation, nil)
	switch codeOf(err) {
	case kerr.RebalanceInProgress.Code:
		return nil
	case kerr.StaleMemberEpoch.Code:
		return kerr.IllegalGeneration
	}
	return err
}

func (t *transactions) stage(req *kmsg.TxnOffsetCommitRequest, commits map[log.TopicPartition]disk.Commit) error {
	x, err := t.check(req.TransactionalID, disk.Outside{ID: req.ProducerID, Epoch: req.ProducerEpoch})
	if err != nil {
		return err
	}
	defer x.mu.Unlock()
	if !x.open || x.deciding || x.broken || !x.groups[req.Group] {
		return kerr.InvalidTxnState
	}
	if x.offsets[req.Group] == nil {
		x.offsets[req.Group] = map[log.TopicPartition]disk.Commit{}
	}
	maps.Copy(x.offsets[req.Group], commits)
	return nil
}

// undecided returns the partitions of a group whose offsets stand in open transactions.
func (t *transactions) undecided(group string) map[log.TopicPartition]bool {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.all))
	t.mu.Unlock()
	out := map[log.TopicPartition]bool{}
	for _, x := range all {
		x.mu.Lock()
		for tp := range x.offsets[group] {
			out[tp] = true
		}
		x.mu.Unlock()
	}
	return out
}

// endTxn commits or aborts.
func (s *Server) endTxn(r *request) answer {
	req := r.message.(*kmsg.EndTxnRequest)
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	x, err := s.transactions.check(req.TransactionalID, disk.Outside{ID: req.ProducerID, Epoch: req.ProducerEpoch})
	if err == nil {
		defer x.mu.Unlock()
		err = s.end(x, req.Commit)
	}
	resp.ErrorCode = fencedCode(r, err)
	if err != nil && resp.ErrorCode == kerr.KafkaStorageError.Code {
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code // clients try that again
	}
	return now(resp)
}

func (s *Server) end(x *transaction, commit bool) error {
	if x.open {
		return s.transactions.finish(x, commit)
	}
	if x.last == committed && commit || x.last == aborted && !commit {
		return nil // the answer to the first request was lost
	}
	return kerr.InvalidTxnState
}
