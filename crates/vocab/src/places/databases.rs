//! Databases and stores: PostgreSQL, InnoDB, RocksDB, SQLite, LMDB.

/// Names that carry their origin: the store may be linked into any program.
const ANY: &[&str] = super::ANYWHERE;
/// PostgreSQL.
const POSTGRES: &[&str] = &["postgres", "postmaster"];
/// PostgreSQL's compiler of expressions.
const LLVMJIT: &[&str] = &["llvmjit.so", "libLLVM.so", "libLLVM-1"];
/// Programs that hold InnoDB.
const INNODB: &[&str] = &["mysqld", "mariadbd"];

pub(super) const PLACES: &[super::Place] = places! {
    ["XLogInsertRecord", "XLogInsert", "CopyXLogRecordToWAL", "ReserveXLogInsertLocation", "WALInsertLockAcquire", "XLogRecordAssemble", "AdvanceXLInsertBuffer", "GetXLogBuffer"] in POSTGRES
        what "PostgreSQL: putting records into the log's buffer"
        by "every change of a table or index; the first change of a page after a checkpoint logs the whole page"
        set ["postgresql: wal_buffers", "postgresql: full_page_writes", "postgresql: wal_compression", "postgresql: max_wal_size"]
        next "compare wal_bytes and wal_fpi in pg_stat_wal; rarer checkpoints log fewer whole pages";
    ["XLogWrite", "XLogFlush", "XLogBackgroundFlush", "issue_xlog_fsync", "WaitXLogInsertionsToFinish", "XLogFileInit", "XLogFileInitInternal"] in POSTGRES
        what "PostgreSQL: writing the log and making it safe"
        by "commits, and buffers of the log that are full"
        set ["postgresql: synchronous_commit", "postgresql: wal_sync_method", "postgresql: commit_delay", "postgresql: wal_segment_size"]
        next "compare syncs per commit and their latency (track_wal_io_timing); group commits or a faster device help";
    ["LWLockAcquire", "LWLockAcquireOrWait", "LWLockAttemptLock", "LWLockQueueSelf", "LWLockRelease", "LWLockWaitForVar", "LWLockWakeup"] in POSTGRES
        what "PostgreSQL: locks of its shared memory"
        by "many backends at the same buffer, part of the buffer table, log or list of processes"
        set ["postgresql: max_connections", "postgresql: shared_buffers", "postgresql: wal_buffers"]
        next "wait_event in pg_stat_activity names the lock; a pool of connections makes fewer backends";
    ["s_lock", "perform_spin_delay", "finish_spin_delay"] in POSTGRES
        what "PostgreSQL: spinning for a lock that is held for a few instructions"
        by "more running backends than CPUs, or one very busy structure"
        set ["postgresql: max_connections", "postgresql: max_parallel_workers"]
        next "the caller tells the lock; fewer backends at once help";
    ["ReadBuffer_common", "ReadBufferExtended", "StartReadBuffersImpl", "StartReadBuffer", "WaitReadBuffers", "BufferAlloc", "PinBuffer", "PinBufferForBlock", "BufTableLookup", "read_stream_next_buffer", "ReleaseAndReadBuffer"] in POSTGRES
        what "PostgreSQL: finding a page in shared buffers, or reading it into them"
        by "each access to a page of a table or index"
        set ["postgresql: shared_buffers", "postgresql: effective_io_concurrency", "postgresql: io_method", "postgresql: huge_pages"]
        next "compare blks_hit with blks_read, and EXPLAIN (ANALYZE, BUFFERS) of both sides";
    ["StrategyGetBuffer", "GetVictimBuffer", "InvalidateVictimBuffer", "ClockSweepTick"] in POSTGRES
        what "PostgreSQL: searching for a buffer to use again"
        by "a working set that is larger than shared_buffers"
        set ["postgresql: shared_buffers", "postgresql: bgwriter_lru_maxpages", "postgresql: bgwriter_delay"]
        next "compare buffers_alloc in pg_stat_bgwriter, and who writes dirty ones (pg_stat_io)";
    ["FlushBuffer", "FlushOneBuffer", "FlushRelationBuffers", "BgBufferSync", "IssuePendingWritebacks", "ScheduleBufferTagForWriteback"] in POSTGRES
        what "PostgreSQL: writing a dirty page, also by a backend that needs its buffer"
        by "too few clean buffers, and the background writer"
        set ["postgresql: bgwriter_lru_maxpages", "postgresql: shared_buffers", "postgresql: backend_flush_after"]
        next "compare writes by context 'client backend' in pg_stat_io";
    ["BufferSync", "CheckPointBuffers", "CreateCheckPoint", "SyncOneBuffer", "ProcessSyncRequests", "CheckpointWriteDelay", "mdsyncfiletag", "register_dirty_segment"] in POSTGRES
        what "PostgreSQL: a checkpoint: all dirty pages are written and made safe"
        by "checkpoint_timeout, or max_wal_size"
        set ["postgresql: max_wal_size", "postgresql: checkpoint_timeout", "postgresql: checkpoint_completion_target", "postgresql: checkpoint_flush_after"]
        next "log_checkpoints tells the reason: 'wal' in place of 'time' asks for a larger max_wal_size";
    ["heap_page_prune", "heap_page_prune_opt", "heap_page_prune_and_freeze", "heap_prune_chain", "heap_prune_record_unchanged_lp_normal", "PageRepairFragmentation", "compactify_tuples"] in POSTGRES
        what "PostgreSQL: removing dead versions of rows from a page, also in a query that only reads"
        by "updates and deletes before"
        set ["postgresql: fillfactor", "postgresql: autovacuum_vacuum_scale_factor"]
        next "compare n_dead_tup in pg_stat_user_tables, and transactions that stay open";
    ["lazy_scan_heap", "lazy_scan_prune", "lazy_vacuum_heap_rel", "lazy_vacuum_heap_page", "lazy_vacuum_all_indexes", "btvacuumscan", "btvacuumpage", "heap_vacuum_rel", "vacuum_delay_point", "do_autovacuum"] in POSTGRES
        what "PostgreSQL: vacuum"
        by "autovacuum after enough changes, or on request"
        set ["postgresql: autovacuum_vacuum_cost_limit", "postgresql: autovacuum_work_mem", "postgresql: maintenance_work_mem", "postgresql: vacuum_buffer_usage_limit"]
        next "pg_stat_progress_vacuum tells the table and the number of passes over its indexes";
    ["GetSnapshotData", "GetSnapshotDataReuse", "ProcArrayEndTransaction", "ProcArrayGroupClearXid", "TransactionIdIsInProgress", "XidInMVCCSnapshot", "GetSnapshotDataInitOldSnapshot"] in POSTGRES
        what "PostgreSQL: taking a snapshot of which transactions are under way"
        by "each statement; more with many connections and subtransactions"
        set ["postgresql: max_connections", "postgresql: default_transaction_isolation"]
        next "compare connections; savepoints beyond 64 per transaction make it slow";
    ["HeapTupleSatisfiesMVCC", "HeapTupleSatisfiesVisibility", "heap_hot_search_buffer", "TransactionIdDidCommit", "SetHintBits", "TransactionLogFetch", "HeapTupleSatisfiesVacuumHorizon"] in POSTGRES
        what "PostgreSQL: deciding which version of a row a query sees"
        by "scans over rows that changed; the first reader also marks them"
        set ["postgresql: autovacuum_vacuum_scale_factor", "postgresql: transaction_buffers", "postgresql: wal_log_hints"]
        next "compare dead rows, and whether the first scan after a load is the slow one: vacuum it";
    ["heap_getnextslot", "heapgettup", "heapgettup_pagemode", "heap_prepare_pagescan", "heapgetpage", "page_collect_tuples", "SeqNext", "ExecSeqScan", "heap_fetch_next_buffer"] in POSTGRES
        what "PostgreSQL: reading a table from its beginning to its end"
        by "queries without a fitting index, or plans that avoid it"
        set ["postgresql: random_page_cost", "postgresql: max_parallel_workers_per_gather", "postgresql: io_combine_limit"]
        next "EXPLAIN (ANALYZE, BUFFERS) on both sides: has the plan changed";
    ["ExecInterpExpr", "ExecInterpExprStillValid", "slot_deform_heap_tuple", "slot_getsomeattrs_int", "tts_buffer_heap_getsomeattrs", "ExecScan", "ExecProcNode*", "ExecProject", "ExecQual"] in POSTGRES
        what "PostgreSQL: evaluating expressions and taking rows apart"
        by "queries over many rows"
        set ["postgresql: jit", "postgresql: jit_above_cost", "postgresql: max_parallel_workers_per_gather"]
        next "compare rows in EXPLAIN (ANALYZE): many rows that a filter removes ask for an index";
    ["_bt_search", "_bt_compare", "_bt_binsrch", "_bt_first", "_bt_readpage", "_bt_moveright", "_bt_checkkeys", "btgettuple"] in POSTGRES
        what "PostgreSQL: searching a B-tree index"
        by "index scans, and checks of unique keys"
        set ["postgresql: shared_buffers", "postgresql: random_page_cost", "env.LC_<var>"]
        next "compare idx_blks_read and rows per scan; text keys compare by the collation: see strcoll";
    ["_bt_doinsert", "_bt_insertonpg", "_bt_split", "_bt_findinsertloc", "_bt_check_unique", "_bt_getbuf", "_bt_delete_or_dedup_one_page", "btinsert"] in POSTGRES
        what "PostgreSQL: inserting into a B-tree index"
        by "inserts, and updates of indexed columns or without room on the page"
        set ["postgresql: fillfactor", "postgresql: shared_buffers"]
        next "compare n_tup_hot_upd with n_tup_upd, and the number of indexes; random keys touch the whole index";
    ["ExecHashJoin*", "ExecHashTableInsert", "ExecHashTableCreate", "MultiExecHash", "MultiExecParallelHash", "ExecHashIncreaseNumBatches", "ExecScanHashBucket", "ExecHashJoinSaveTuple", "ExecParallelHash*"] in POSTGRES
        what "PostgreSQL: joining by a hash table"
        by "large joins; more than work_mem goes to temporary files"
        set ["postgresql: work_mem", "postgresql: hash_mem_multiplier", "postgresql: temp_tablespaces"]
        next "look for Batches above 1 in EXPLAIN (ANALYZE)";
    ["tuplehash_*", "agg_fill_hash_table", "lookup_hash_entries", "TupleHashTableHash*", "hashagg_spill_*", "ExecAgg", "advance_aggregates", "agg_refill_hash_table", "LookupTupleHashEntry*"] in POSTGRES
        what "PostgreSQL: aggregating by a hash table"
        by "GROUP BY and DISTINCT"
        set ["postgresql: work_mem", "postgresql: hash_mem_multiplier", "postgresql: enable_hashagg"]
        next "look for Batches and Disk Usage in EXPLAIN (ANALYZE)";
    ["tuplesort_performsort", "tuplesort_*", "qsort_tuple*", "qsort_ssup*", "comparetup_*", "mergeonerun", "dumptuples", "inittapes", "LogicalTape*", "varstr_abbrev_convert", "varlenafastcmp_locale", "varstrfastcmp_locale"] in POSTGRES
        what "PostgreSQL: sorting"
        by "ORDER BY, merge joins, making indexes; more than work_mem goes to files"
        set ["postgresql: work_mem", "postgresql: maintenance_work_mem", "env.LC_<var>"]
        next "look for 'external merge' in EXPLAIN (ANALYZE); COLLATE \"C\" compares faster";
    ["BufFileWrite", "BufFileDumpBuffer", "BufFileReadCommon", "BufFileLoadBuffer", "FileWrite", "FileWriteV", "OpenTemporaryFile", "BufFileRead"] in POSTGRES
        what "PostgreSQL: temporary files"
        by "sorts, hashes and cursors that exceed their memory"
        set ["postgresql: work_mem", "postgresql: temp_file_limit", "postgresql: log_temp_files"]
        next "compare temp_bytes in pg_stat_database";
    ["ProcSleep", "LockAcquireExtended", "LockAcquire", "DeadLockCheck", "LockRelease", "LockReleaseAll", "XactLockTableWait", "heap_lock_tuple", "FastPathGrantRelationLock"] in POSTGRES
        what "PostgreSQL: locks of tables and rows"
        by "statements that need what another transaction holds, and many tables or partitions per statement"
        set ["postgresql: max_locks_per_transaction", "postgresql: deadlock_timeout", "postgresql: log_lock_waits"]
        next "pg_blocking_pids tells who; more than 16 relations per statement leave the quick way (before 18)";
    ["standard_planner", "query_planner", "grouping_planner", "make_one_rel", "add_path", "join_search_one_level", "pg_plan_query", "pg_analyze_and_rewrite_*", "raw_parser", "base_yyparse", "get_relation_info", "expand_inherited_rtentry"] in POSTGRES
        what "PostgreSQL: parsing and planning"
        by "short statements, tables with many partitions, joins of many tables"
        set ["postgresql: plan_cache_mode", "postgresql: join_collapse_limit", "postgresql: from_collapse_limit"]
        next "prepared statements plan once; compare planning and execution time";
    ["AllocSetAlloc*", "AllocSetFree", "AllocSetReset", "AllocSetDelete", "palloc", "palloc0", "MemoryContextAlloc*", "MemoryContextReset", "GenerationAlloc*", "pfree", "BumpAlloc*"] in POSTGRES
        what "PostgreSQL: memory of a query"
        by "rows, expressions, plans"
        set ["postgresql: work_mem", "env.MALLOC_TOP_PAD_", "env.MALLOC_TRIM_THRESHOLD_"]
        next "see whether contexts are made and dropped per row, and whether malloc gives memory back each time (brk, munmap)";
    ["SimpleLruReadPage*", "SlruSelectLRUPage", "SimpleLruWritePage", "SlruPhysicalReadPage", "SubTransGetParent", "SubTransGetTopmostTransaction", "GetMultiXactIdMembers", "TransactionIdSetTreeStatus"] in POSTGRES
        what "PostgreSQL: states of transactions, subtransactions and shared row locks"
        by "many subtransactions, foreign keys, and transactions that stay open long"
        set ["postgresql: subtransaction_buffers", "postgresql: multixact_member_buffers", "postgresql: transaction_buffers"]
        next "pg_stat_slru tells which; end long transactions";
    ["pglz_compress", "pglz_decompress", "detoast_attr*", "toast_fetch_datum", "toast_save_datum", "pg_detoast_datum*", "heap_fetch_toast_slice", "lz4_decompress_datum"] in POSTGRES
        what "PostgreSQL: long values: compressing, and keeping them in a table of their own"
        by "columns of more than about 2 kB"
        set ["postgresql: default_toast_compression", "postgresql: toast_tuple_target"]
        next "lz4 is faster than pglz; leave the column out of SELECT where it is not needed";
    ["llvm_compile_expr", "llvm_compile_module", "llvm::*", "llvm_optimize_module", "LLVMOrc*"] in LLVMJIT
        what "PostgreSQL: compiling expressions of a query"
        by "plans whose estimated cost is above jit_above_cost"
        set ["postgresql: jit", "postgresql: jit_above_cost", "postgresql: jit_optimize_above_cost"]
        next "EXPLAIN (ANALYZE) tells the time under JIT: more than the query's own asks for a higher limit";
    ["buf_page_get_gen", "Buf_fetch*", "buf_page_get_low", "buf_read_page", "buf_read_page_low", "buf_page_init_for_read", "buf_page_hash_get_low", "buf_page_optimistic_get", "buf_pool_t::*"] in INNODB
        what "InnoDB: finding a page in the buffer pool, or reading it"
        by "each access to a page"
        set ["mysql: innodb_buffer_pool_size", "mysql: innodb_buffer_pool_instances", "mysql: innodb_read_ahead_threshold"]
        next "compare Innodb_buffer_pool_reads with read_requests";
    ["buf_LRU_get_free_block", "buf_LRU_scan_and_free_block", "buf_LRU_free_page", "buf_LRU_get_free_only", "buf_flush_single_page_from_LRU", "buf_flush_LRU_list", "buf_LRU_make_block_young"] in INNODB
        what "InnoDB: getting a free page of the buffer pool, if need be by writing one"
        by "a working set above the pool's size, and cleaners that do not keep up"
        set ["mysql: innodb_buffer_pool_size", "mysql: innodb_lru_scan_depth", "mysql: innodb_page_cleaners"]
        next "compare Innodb_buffer_pool_wait_free: it should be 0";
    ["buf_flush_page_cleaner_thread", "buf_flush_page_cleaner", "buf_flush_page_coordinator_thread", "buf_flush_page", "buf_do_flush_list_batch", "buf_flush_try_neighbors", "buf_flush_write_block_low", "pc_flush_slot", "buf_flush_lists", "af_get_pct_for_lsn"] in INNODB
        what "InnoDB: writing dirty pages in the background, or because the log is nearly full"
        by "changes of pages, and the age of the oldest"
        set ["mysql: innodb_io_capacity", "mysql: innodb_redo_log_capacity", "mysql: innodb_max_dirty_pages_pct", "mysql: innodb_flush_neighbors"]
        next "compare the age of the checkpoint in SHOW ENGINE INNODB STATUS with the log's capacity";
    ["buf_dblwr*", "dblwr::*"] in INNODB
        what "InnoDB: writing pages twice so that none is torn"
        by "each write of a dirty page"
        set ["mysql: innodb_doublewrite", "mysql: innodb_doublewrite_pages", "mysql: innodb_doublewrite_dir"]
        next "compare pages written; devices that write 16 KiB atomically need it not";
    ["log_write_up_to", "log_writer*", "log_flusher*", "log_write_flush_to_disk_low", "log_buffer_reserve", "log_buffer_write*", "log_wait_for_*", "log_flush_notifier*", "log_write_notifier*", "log_t::*", "log_flush_low"] in INNODB
        what "InnoDB: the redo log: copying records, writing, making it safe"
        by "changes, and commits that wait for the log"
        set ["mysql: innodb_flush_log_at_trx_commit", "mysql: innodb_log_buffer_size", "mysql: innodb_log_writer_threads", "mysql: sync_binlog"]
        next "compare Innodb_os_log_fsyncs per commit, and Innodb_log_waits; the binary log has a sync of its own";
    ["fil_flush*", "Fil_shard::*", "fil_io", "os_file_flush_func", "os_file_fsync_posix", "os_file_io", "os_aio*", "AIO::*", "SyncFileIO::*", "LinuxAIOHandler::*", "fil_space_t::*"] in INNODB
        what "InnoDB: reads, writes and syncs of its files"
        by "pages that are read or written"
        set ["mysql: innodb_flush_method", "mysql: innodb_use_native_aio", "mysql: innodb_use_fdatasync", "mysql: innodb_read_io_threads"]
        next "O_DIRECT avoids caching twice; compare fsync per second";
    ["btr_cur_search_to_nth_level", "btr_cur_t::*", "page_cur_search_with_match*", "cmp_dtuple_rec_with_match*", "btr_pcur_*", "cmp_data", "cmp_whole_field", "btr_cur_optimistic_insert", "btr_cur_pessimistic_insert", "btr_page_split_and_insert"] in INNODB
        what "InnoDB: searching and changing its B-trees"
        by "lookups, inserts, updates; splits of pages where there is no room"
        set ["mysql: innodb_fill_factor", "mysql: innodb_page_size", "mysql: innodb_buffer_pool_size"]
        next "compare Handler_read_* and rows examined; random primary keys touch the whole tree";
    ["row_search_mvcc", "row_sel_store_mysql_rec", "row_sel_store_mysql_field", "rec_get_offsets_func", "rec_init_offsets*", "rec_offs_*", "row_sel_field_store_in_mysql_format_func", "ha_innobase::*", "handler::*"] in INNODB
        what "InnoDB: fetching rows for a query and turning them into the server's form"
        by "scans and lookups"
        set ["mysql: optimizer_switch", "mysql: innodb_buffer_pool_size"]
        next "compare rows examined with rows sent: EXPLAIN ANALYZE on both sides";
    ["row_vers_*", "trx_undo_prev_version_build", "trx_undo_get_undo_rec*", "row_sel_build_prev_vers_for_mysql", "ReadView::*", "MVCC::*", "lock_clust_rec_cons_read_sees"] in INNODB
        what "InnoDB: building older versions of rows for a consistent read"
        by "reads of rows that changed since the snapshot"
        set ["mysql: transaction_isolation", "mysql: innodb_max_purge_lag"]
        next "compare the history list length in SHOW ENGINE INNODB STATUS; end long transactions";
    ["trx_purge*", "row_purge*", "srv_purge_coordinator*", "srv_worker_thread", "purge_sys_t::*", "srv_do_purge"] in INNODB
        what "InnoDB: removing versions and deleted rows that nobody sees any more"
        by "updates and deletes before"
        set ["mysql: innodb_purge_threads", "mysql: innodb_purge_batch_size", "mysql: innodb_max_purge_lag"]
        next "compare the history list length";
    ["lock_rec_lock*", "lock_wait_suspend_thread", "lock_wait*", "lock_rec_insert_check_and_lock", "DeadlockChecker::*", "lock_rec_has_to_wait*", "lock_deadlock*", "lock_trx_release_locks", "lock_sys_t::*", "RecLock::*", "locksys::*"] in INNODB
        what "InnoDB: locks of rows"
        by "transactions that change or lock the same rows"
        set ["mysql: innodb_lock_wait_timeout", "mysql: innodb_deadlock_detect", "mysql: transaction_isolation"]
        next "performance_schema.data_lock_waits tells who waits for whom";
    ["rw_lock_s_lock_spin", "rw_lock_x_lock_func", "rw_lock_x_lock_wait_func", "rw_lock_sx_lock_func", "sync_array_wait_event", "sync_array_*", "ut_delay", "TTASEventMutex*", "PolicyMutex*", "os_event::*", "ssux_lock_impl*", "srw_lock_impl*", "srw_mutex_impl*", "ssux_lock*"] in INNODB
        what "InnoDB: its internal locks, spinning and then sleeping"
        by "many threads at one index root, buffer pool part or log"
        set ["mysql: innodb_spin_wait_delay", "mysql: innodb_sync_spin_loops", "mysql: innodb_thread_concurrency", "mysql: innodb_buffer_pool_instances"]
        next "SHOW ENGINE INNODB MUTEX and SEMAPHORES in its status tell which";
    ["btr_search_*", "ha_search_and_get_data", "ha_insert_for_fold*", "ha_remove_all_nodes_to_page", "btr_sea::*"] in INNODB
        what "InnoDB: its adaptive hash index"
        by "lookups that repeat; dropping its entries when pages leave the pool"
        set ["mysql: innodb_adaptive_hash_index", "mysql: innodb_adaptive_hash_index_parts"]
        next "switch it off and compare";
    ["ibuf_insert*", "ibuf_merge*", "ibuf_contract*", "ibuf_get_merge_page_nos*", "ibuf_delete_rec"] in INNODB
        what "InnoDB: changes of secondary indexes that are kept back and merged later"
        by "changes of index pages that are not in memory, and reads of them afterwards"
        set ["mysql: innodb_change_buffering", "mysql: innodb_change_buffer_max_size"]
        next "compare merges in SHOW ENGINE INNODB STATUS; newer releases have it off";
    ["mtr_t::*", "mtr_memo_*", "mlog_*", "page_zip_*", "trx_commit*", "trx_undo_*", "trx_rseg_*"] in INNODB
        what "InnoDB: grouping changes of pages, undo records, commits"
        by "changes of rows"
        set ["mysql: innodb_rollback_segments", "mysql: innodb_undo_tablespaces", "mysql: innodb_log_buffer_size"]
        next "see the caller; compressed tables (page_zip_*) pay for each change";
    ["rocksdb::DBImpl::WriteImpl", "rocksdb::DBImpl::Write*", "rocksdb::WriteThread::*", "rocksdb::WriteBatchInternal::*", "rocksdb::DBImpl::PipelinedWriteImpl", "rocksdb::DBImpl::PreprocessWrite"] in ANY
        what "RocksDB: a write, which one thread does for a group of others"
        by "Put, Write, Merge, Delete"
        set ["rocksdb: enable_pipelined_write", "rocksdb: allow_concurrent_memtable_write", "rocksdb: unordered_write"]
        next "waits here are for the leader of the group: see what it does (log, sync, memtable)";
    ["rocksdb::DBImpl::DelayWrite", "rocksdb::WriteController::*", "rocksdb::DBImpl::WriteBufferManagerStallWrites", "rocksdb::DBImpl::HandleWriteBufferManagerFlush", "rocksdb::ColumnFamilyData::RecalculateWriteStallConditions"] in ANY
        what "RocksDB: holding writers back"
        by "too many memtables, files of level 0, or bytes that compaction still has to move"
        set ["rocksdb: level0_slowdown_writes_trigger", "rocksdb: max_write_buffer_number", "rocksdb: soft_pending_compaction_bytes_limit", "rocksdb: max_background_jobs"]
        next "'Stalls' in the statistics and the LOG tell the reason";
    ["rocksdb::log::Writer::*", "rocksdb::WritableFileWriter::*", "rocksdb::PosixWritableFile::*", "rocksdb::DBImpl::WriteToWAL", "rocksdb::DBImpl::SyncWAL", "rocksdb::DBImpl::SyncClosedWals"] in ANY
        what "RocksDB: writing its log or a table, and syncing"
        by "writes with the log on, flushes, compactions"
        set ["rocksdb: WriteOptions::sync", "rocksdb: wal_bytes_per_sync", "rocksdb: bytes_per_sync", "rocksdb: manual_wal_flush"]
        next "compare syncs per write and their latency; group writes";
    ["rocksdb::MemTable::*", "rocksdb::InlineSkipList", "rocksdb::InlineSkipList::*", "rocksdb::ConcurrentArena::*", "rocksdb::Arena::*", "rocksdb::MemTableInserter::*"] in ANY
        what "RocksDB: inserting into the memtable, or searching it"
        by "writes, and reads of new keys"
        set ["rocksdb: write_buffer_size", "rocksdb: memtable_prefix_bloom_size_ratio", "rocksdb: memtable_huge_page_size"]
        next "a larger memtable has longer searches; a bloom filter for it helps reads that miss";
    ["rocksdb::FlushJob::*", "rocksdb::BuildTable", "rocksdb::DBImpl::BackgroundFlush*", "rocksdb::DBImpl::FlushMemTable*"] in ANY
        what "RocksDB: writing a memtable to a file"
        by "full memtables"
        set ["rocksdb: write_buffer_size", "rocksdb: max_background_flushes", "rocksdb: max_background_jobs"]
        next "compare flushes per second, and whether writers stall meanwhile";
    ["rocksdb::CompactionJob::*", "rocksdb::CompactionIterator::*", "rocksdb::CompactionMergingIterator::*", "rocksdb::DBImpl::BackgroundCompaction", "rocksdb::MergingIterator::*", "rocksdb::BlockBasedTableBuilder::*", "rocksdb::BlockBuilder::*"] in ANY
        what "RocksDB: compaction: merging files and writing new ones"
        by "writes before"
        set ["rocksdb: compaction_style", "rocksdb: max_bytes_for_level_multiplier", "rocksdb: rate_limiter", "rocksdb: compression"]
        next "compare write amplification in the statistics; a rate limiter keeps it from disturbing reads";
    ["rocksdb::DBImpl::Get*", "rocksdb::Version::Get", "rocksdb::Version::MultiGet*", "rocksdb::TableCache::*", "rocksdb::FilePicker::*", "rocksdb::GetContext::*", "rocksdb::DBImpl::MultiGet*"] in ANY
        what "RocksDB: looking a key up, file by file"
        by "Get and MultiGet"
        set ["rocksdb: max_open_files", "rocksdb: level0_file_num_compaction_trigger", "rocksdb: optimize_filters_for_hits"]
        next "compare files read per lookup (perf context); more files in level 0 are searched one by one";
    ["rocksdb::BlockBasedTable::*", "rocksdb::DataBlockIter::*", "rocksdb::IndexBlockIter::*", "rocksdb::BlockIter", "rocksdb::PartitionedIndexIterator::*", "rocksdb::BlockBasedTableIterator::*"] in ANY
        what "RocksDB: finding a block of a table, and the key in it"
        by "lookups and scans"
        set ["rocksdb: block_size", "rocksdb: index_type", "rocksdb: cache_index_and_filter_blocks", "rocksdb: data_block_index_type"]
        next "compare block cache hits; index and filter blocks that leave the cache cost most";
    ["rocksdb::BlockFetcher::*", "rocksdb::RandomAccessFileReader::*", "rocksdb::PosixRandomAccessFile::*", "rocksdb::FilePrefetchBuffer::*", "rocksdb::UncompressBlockData", "rocksdb::UncompressSerializedBlock", "rocksdb::VerifyBlockChecksum", "rocksdb::crc32c::*"] in ANY
        what "RocksDB: reading a block: I/O, checksum, decompression"
        by "blocks that the cache does not hold"
        set ["rocksdb: block_cache", "rocksdb: use_direct_reads", "rocksdb: compression", "rocksdb: ReadOptions::readahead_size"]
        next "compare bytes read per lookup, and the page cache's part";
    ["rocksdb::LRUCacheShard::*", "rocksdb::lru_cache::*", "rocksdb::clock_cache::*", "rocksdb::ShardedCache", "rocksdb::ShardedCache::*"] in ANY
        what "RocksDB: its cache of blocks"
        by "each access to a block; the LRU takes a lock per shard"
        set ["rocksdb: block_cache", "rocksdb: num_shard_bits", "rocksdb: HyperClockCache"]
        next "with many threads compare HyperClockCache";
    ["rocksdb::FilterBlockReaderCommon*", "rocksdb::FullFilterBlockReader::*", "rocksdb::PartitionedFilterBlockReader::*", "rocksdb::FastLocalBloomBitsReader::*", "rocksdb::XXH3_*", "rocksdb::Hash64", "rocksdb::XXPH3BitsFilterBuilder::*"] in ANY
        what "RocksDB: bloom filters, which tell that a file does not hold a key"
        by "lookups, and building filters in flushes and compactions"
        set ["rocksdb: filter_policy", "rocksdb: whole_key_filtering", "rocksdb: optimize_filters_for_memory"]
        next "compare bloom.filter.useful with full.positive in the statistics";
    ["rocksdb::DBIter::*", "rocksdb::ArenaWrappedDBIter::*", "rocksdb::LevelIterator::*", "rocksdb::NewMergingIterator", "rocksdb::DBImpl::NewIterator*"] in ANY
        what "RocksDB: scanning; deleted and overwritten keys are passed over one by one"
        by "iterators"
        set ["rocksdb: ReadOptions::iterate_upper_bound", "rocksdb: prefix_extractor", "rocksdb: max_skippable_internal_keys"]
        next "compare internal_delete_skipped_count (perf context): tombstones ask for compaction";
    ["sqlite3VdbeExec", "sqlite3Step", "sqlite3_step", "sqlite3VdbeRecordCompare*", "vdbeRecordCompare*", "sqlite3VdbeSerialGet", "sqlite3VdbeMemShallowCopy"] in ANY
        what "SQLite: running the program of a statement"
        by "sqlite3_step"
        set ["sqlite: PRAGMA optimize", "sqlite: ANALYZE", "sqlite: PRAGMA temp_store"]
        next "EXPLAIN QUERY PLAN on both sides: a SCAN where there was a SEARCH";
    ["sqlite3BtreeMovetoUnpacked", "sqlite3BtreeIndexMoveto", "sqlite3BtreeTableMoveto", "moveToChild", "moveToRoot", "sqlite3BtreeNext", "btreeNext", "btreeParseCell*", "getCellInfo", "accessPayload"] in ANY
        what "SQLite: walking a B-tree"
        by "lookups and scans"
        set ["sqlite: PRAGMA cache_size", "sqlite: PRAGMA page_size", "sqlite: PRAGMA mmap_size"]
        next "compare pages read; long values lie on overflow pages";
    ["getPageNormal", "getPageMMap", "readDbPage", "sqlite3PagerGet", "sqlite3PcacheFetch*", "pcache1Fetch*", "pcache1Alloc", "unixRead", "unixFetch", "sqlite3OsRead"] in ANY
        what "SQLite: getting a page from its cache or from the file"
        by "pages that are visited"
        set ["sqlite: PRAGMA cache_size", "sqlite: PRAGMA mmap_size", "sqlite: PRAGMA page_size"]
        next "count pread calls; another process's write empties the cache";
    ["sqlite3WalFrames", "pagerWalFrames", "walWriteOneFrame", "walWriteToLog", "walChecksumBytes", "walEncodeFrame", "walIndexAppend", "walRewriteChecksums"] in ANY
        what "SQLite: writing changed pages to the write-ahead log"
        by "commits in WAL mode"
        set ["sqlite: PRAGMA synchronous", "sqlite: PRAGMA journal_mode", "sqlite: PRAGMA wal_autocheckpoint"]
        next "compare commits per second and pages per commit: put more into a transaction";
    ["sqlite3WalCheckpoint", "walCheckpoint", "walIteratorInit", "walIteratorNext", "sqlite3PagerCheckpoint", "sqlite3_wal_checkpoint_v2"] in ANY
        what "SQLite: moving the write-ahead log into the database"
        by "a log of wal_autocheckpoint pages, in the commit that reaches it"
        set ["sqlite: PRAGMA wal_autocheckpoint", "sqlite: PRAGMA synchronous", "sqlite: sqlite3_wal_checkpoint_v2"]
        next "it shows as slow single commits; a thread of its own may do it, and long readers keep it from ending";
    ["walFindFrame", "sqlite3WalFindFrame", "walTryBeginRead", "walIndexTryHdr", "walIndexRecover", "walIndexReadHdr"] in ANY
        what "SQLite: looking a page up in the write-ahead log, or beginning to read"
        by "reads in WAL mode; a long log makes lookups longer"
        set ["sqlite: PRAGMA wal_autocheckpoint", "sqlite: PRAGMA journal_size_limit"]
        next "compare the size of the -wal file; a reader that stays open keeps it growing";
    ["pager_write", "pagerAddPageToRollbackJournal", "syncJournal", "pager_write_pagelist", "sqlite3PagerCommitPhaseOne", "pager_end_transaction", "pager_open_journal", "zeroJournalHdr"] in ANY
        what "SQLite: the rollback journal: old contents are saved before pages change"
        by "commits without WAL: two or three syncs each"
        set ["sqlite: PRAGMA journal_mode", "sqlite: PRAGMA synchronous"]
        next "journal_mode=WAL needs one sync or none per commit";
    ["unixSync", "full_fsync", "sqlite3OsSync", "unixWrite", "seekAndWriteFd", "unixLock", "posixUnlock", "unixShmLock", "unixShmSystemLock", "unixFileLock"] in ANY
        what "SQLite: syncs, writes and locks of its files"
        by "commits, and other processes at the same database"
        set ["sqlite: PRAGMA synchronous", "sqlite: PRAGMA locking_mode", "sqlite: PRAGMA journal_mode"]
        next "compare fsync per commit; locking_mode=EXCLUSIVE saves the locks";
    ["sqliteDefaultBusyCallback", "sqlite3_busy_timeout", "sqlite3InvokeBusyHandler", "btreeInvokeBusyHandler", "sqlite3_sleep", "unixSleep"] in ANY
        what "SQLite: sleeping because another connection has the lock"
        by "several writers"
        set ["sqlite: PRAGMA busy_timeout", "sqlite: BEGIN IMMEDIATE", "sqlite: PRAGMA journal_mode"]
        next "it sleeps in steps of up to 100 ms: keep write transactions short, or one writer";
    ["balance_nonroot", "balance_deeper", "insertCell", "insertCellFast", "editPage", "rebuildPage", "defragmentPage", "pageInsertArray", "sqlite3BtreeInsert"] in ANY
        what "SQLite: inserting, and sharing cells out over pages"
        by "inserts and deletes"
        set ["sqlite: PRAGMA page_size", "sqlite: WITHOUT ROWID", "sqlite: PRAGMA cache_size"]
        next "insert in the order of the key; fewer indexes";
    ["sqlite3RunParser", "sqlite3Parser", "yy_reduce", "sqlite3WhereBegin", "sqlite3Prepare", "sqlite3LockAndPrepare", "whereLoopAddBtree", "sqlite3Select", "sqlite3InitOne", "wherePathSolver"] in ANY
        what "SQLite: parsing and planning a statement, or reading the schema"
        by "sqlite3_prepare for each statement, and new connections"
        set ["sqlite: SQLITE_PREPARE_PERSISTENT", "sqlite: sqlite3_bind"]
        next "prepare once and bind values; keep connections";
    ["sqlite3VdbeSorter*", "vdbeSorter*", "vdbePmaReadBlob", "vdbeMergeEngine*", "sqlite3VdbeSorterWrite"] in ANY
        what "SQLite: sorting"
        by "ORDER BY, GROUP BY and CREATE INDEX without a fitting index"
        set ["sqlite: PRAGMA cache_size", "sqlite: PRAGMA temp_store", "sqlite: PRAGMA threads"]
        next "an index in that order saves it; see TEMP B-TREE in EXPLAIN QUERY PLAN";
    ["mdb_get", "mdb_page_search*", "mdb_page_get", "mdb_node_search", "mdb_cursor_set", "mdb_cursor_next", "mdb_cursor_get", "mdb_cmp_*"] in ANY
        what "LMDB: searching its B-tree in mapped memory; a page that is not in memory is a page fault here"
        by "mdb_get and cursors"
        set ["lmdb: MDB_NORDAHEAD", "sysctl.vm.swappiness", "mm.fault_around_bytes", "block.<dev>.read_ahead_kb"]
        next "compare major faults; MDB_NORDAHEAD reads less ahead for random access to large databases";
    ["mdb_put", "mdb_cursor_put", "mdb_page_touch", "mdb_page_split", "mdb_node_add", "mdb_rebalance", "mdb_page_unspill", "mdb_page_dirty"] in ANY
        what "LMDB: changing pages, each copied first"
        by "writes"
        set ["lmdb: MDB_WRITEMAP", "lmdb: MDB_APPEND"]
        next "compare pages per transaction; MDB_WRITEMAP leaves out a copy";
    ["mdb_page_alloc", "mdb_midl_*", "mdb_freelist_save", "mdb_find_oldest", "mdb_page_loose"] in ANY
        what "LMDB: searching its list of free pages"
        by "writes, longer with a fragmented file or an old reader"
        set ["lmdb: mdb_reader_check", "lmdb: mdb_env_copy2 MDB_CP_COMPACT"]
        next "look for a reader that stays open (mdb_stat -r): its pages are not used again";
    ["mdb_txn_commit", "mdb_page_flush", "mdb_env_sync*", "mdb_env_write_meta", "mdb_page_spill"] in ANY
        what "LMDB: writing dirty pages and syncing"
        by "commits"
        set ["lmdb: MDB_NOSYNC", "lmdb: MDB_NOMETASYNC", "lmdb: MDB_MAPASYNC"]
        next "compare syncs per unit of work: more changes per transaction";
    ["mdb_txn_begin", "mdb_txn_renew0", "mdb_mutex_failed", "mdb_txn_renew", "mdb_reader_check0"] in ANY
        what "LMDB: beginning a transaction; writers wait for each other"
        by "each transaction"
        set ["lmdb: mdb_env_set_maxreaders", "lmdb: MDB_NOTLS"]
        next "waits here are for the one writer; renew read transactions in place of new ones";
};
