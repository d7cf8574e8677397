//! Runtimes of languages: Go, HotSpot, CPython, V8.

/// Names that carry their origin: the runtime is linked into the program.
const ANY: &[&str] = super::ANYWHERE;
/// Java's virtual machine.
const HOTSPOT: &[&str] = &["libjvm.so"];
/// Java's libraries in C.
const JDK: &[&str] = &["libjvm.so", "libjava.so", "libnio.so", "libnet.so", "libzip.so"];
/// Python, as a program and as a library.
const PYTHON: &[&str] = &["python", "libpython"];

pub(super) const PLACES: &[super::Place] = places! {
    ["runtime.mallocgc", "runtime.mallocgcSmall*", "runtime.mallocgcTiny", "runtime.mallocgcLarge", "runtime.newobject", "runtime.makeslice", "runtime.nextFreeFast"] in ANY
        what "Go: allocating an object on the heap"
        by "values that escape their function, interfaces, closures, strings"
        set ["env.GOGC", "env.GOMEMLIMIT", "env.GODEBUG"]
        next "take an allocation profile; go build -gcflags=-m tells what escapes";
    ["runtime.(*mcache).*", "runtime.(*mcentral).*", "runtime.(*mheap).*", "runtime.(*pageAlloc).*"] in ANY
        what "Go: getting spans of pages for a size of objects, under the heap's lock at last"
        by "allocation faster than sweeping frees, and large objects"
        set ["env.GOGC", "env.GOMEMLIMIT", "env.GOMAXPROCS"]
        next "count large allocations and the size of the heap";
    ["runtime.gcBgMarkWorker*", "runtime.gcDrain*", "runtime.scanobject", "runtime.scanObject*", "runtime.scanblock", "runtime.greyobject", "runtime.scanSpan*", "runtime.tryDeferToSpanScan", "runtime.findObject", "runtime.markroot*", "runtime.scanstack", "runtime.(*gcWork).*"] in ANY time of "gc.more"
        what "Go: marking live objects, on a quarter of the CPUs and more if needed"
        by "the heap having grown by GOGC percent since the last collection, or near GOMEMLIMIT"
        set ["env.GOGC", "env.GOMEMLIMIT", "env.GOMAXPROCS", "thp.enabled"]
        next "GODEBUG=gctrace=1 tells how often; a larger GOGC collects less often";
    ["runtime.gcAssistAlloc*", "runtime.deductAssistCredit", "runtime.gcParkAssist"] in ANY time of "gc.more"
        what "Go: marking that an allocating goroutine has to do itself"
        by "allocation faster than the background workers mark"
        set ["env.GOGC", "env.GOMEMLIMIT", "env.GOMAXPROCS"]
        next "it shows as latency: allocate less, or give the collector more room (GOGC)";
    ["runtime.sweepone", "runtime.bgsweep", "runtime.(*sweepLocked).*", "runtime.(*mspan).*", "runtime.deductSweepCredit"] in ANY time of "gc.more"
        what "Go: sweeping spans after a collection"
        by "each collection, in the background and before allocations"
        set ["env.GOGC", "env.GOMEMLIMIT"]
        next "compare collections per second";
    ["runtime.bgscavenge*", "runtime.(*scavengerState).*", "runtime.(*scavengeIndex).*", "runtime.sysUnused*", "runtime.sysUsed*", "runtime.sysHugePage*", "runtime.madvise"] in ANY
        what "Go: giving free pages back to the kernel, and taking them again"
        by "a heap that shrinks, and a limit that is near"
        set ["env.GOMEMLIMIT", "env.GODEBUG", "env.GOGC", "thp.enabled"]
        next "count madvise and faults; a heap that goes up and down pays each time";
    ["runtime.memmove", "runtime.memclrNoHeapPointers*", "runtime.memclrHasPointers", "runtime.typedmemmove", "runtime.bulkBarrierPreWrite", "runtime.memequal"] in ANY
        what "Go: copying and clearing memory"
        by "slices that grow, strings and byte slices that are converted, new objects"
        set ["thp.enabled", "env.GOGC"]
        next "see the caller; faults below it mean new memory";
    ["runtime.growslice", "runtime.concatstring*", "runtime.slicebytetostring", "runtime.stringtoslicebyte", "runtime.rawbyteslice"] in ANY
        what "Go: slices that grow, strings that are put together or converted"
        by "append beyond the capacity, + on strings, conversions"
        set ["env.GOGC", "program: make with capacity"]
        next "give the capacity; use strings.Builder";
    ["runtime.mapassign*", "runtime.mapaccess*", "runtime.mapdelete*", "runtime.hashGrow", "runtime.growWork*", "runtime.evacuate*", "internal/runtime/maps.*", "runtime.mapiternext", "runtime.aeshashbody", "runtime.strhash"] in ANY
        what "Go: maps"
        by "lookups, insertions, growth"
        set ["env.GOEXPERIMENT", "env.GOGC"]
        next "compare elements and lookups; Go 1.24 has another table (GOEXPERIMENT=noswissmap compares)";
    ["runtime.schedule", "runtime.findRunnable", "runtime.findrunnable", "runtime.stealWork", "runtime.runqgrab", "runtime.runqsteal", "runtime.park_m", "runtime.mcall", "runtime.goschedImpl", "runtime.wakep", "runtime.startm", "runtime.stopm"] in ANY
        what "Go: looking for a goroutine to run"
        by "goroutines that wait and are woken in short turns; idle CPUs that search"
        set ["env.GOMAXPROCS", "env.GODEBUG", "cgroup.cpu.max"]
        next "GOMAXPROCS above the cgroup's CPUs makes the search dear and gets throttled (before Go 1.25); compare";
    ["runtime.futex", "runtime.futexsleep", "runtime.futexwakeup", "runtime.notesleep", "runtime.notewakeup", "runtime.usleep", "runtime.osyield"] in ANY
        what "Go: putting threads to sleep and waking them"
        by "a scheduler whose threads run out of work and get some again"
        set ["env.GOMAXPROCS", "env.GODEBUG"]
        next "count switches; fewer threads (GOMAXPROCS) or larger pieces of work need fewer";
    ["runtime.lock2", "runtime.unlock2", "runtime.procyield", "runtime.lockWithRank", "runtime.(*mLockProfile).*"] in ANY
        what "Go: locks of the runtime itself"
        by "heap, scheduler, timers or channels used from many CPUs"
        set ["env.GOMAXPROCS", "env.GODEBUG"]
        next "the caller tells the lock";
    ["sync.(*Mutex).*", "internal/sync.(*Mutex).*", "sync.(*RWMutex).*", "runtime.semacquire1", "runtime.semrelease1", "sync.runtime_SemacquireMutex", "sync.runtime_Semacquire*"] in ANY
        what "Go: locks of the program"
        by "goroutines that need the same mutex"
        set ["env.GOMAXPROCS", "program: number of goroutines"]
        next "take a mutex profile";
    ["runtime.chansend*", "runtime.chanrecv*", "runtime.selectgo", "runtime.send", "runtime.recv", "runtime.sellock", "runtime.goready"] in ANY
        what "Go: channels"
        by "values passed one by one between goroutines"
        set ["env.GOMAXPROCS", "program: channel capacity"]
        next "pass batches, or use buffered channels";
    ["runtime.newstack", "runtime.copystack", "runtime.morestack*", "runtime.adjustframe", "runtime.newproc*", "runtime.malg", "runtime.gfget"] in ANY
        what "Go: new goroutines, and stacks that grow by a copy"
        by "goroutines for each small task, deep calls"
        set ["env.GODEBUG", "program: number of goroutines"]
        next "keep workers; GODEBUG=adaptivestackstart=1 starts with the usual size";
    ["runtime.gcWriteBarrier*", "runtime.wbBufFlush*", "runtime.gcStart", "runtime.stopTheWorldWithSema", "runtime.gcMarkDone", "runtime.gcMarkTermination"] in ANY time of "gc.more"
        what "Go: beginning and ending a collection, and noting pointers that change meanwhile"
        by "each collection"
        set ["env.GOGC", "env.GOMEMLIMIT"]
        next "compare collections per second (gctrace)";
    ["runtime.cgocall", "runtime.asmcgocall*", "runtime.exitsyscall*", "runtime.entersyscall", "runtime.reentersyscall", "runtime.cgocallback*", "syscall.Syscall*", "internal/runtime/syscall.Syscall6"] in ANY
        what "Go: calls to C and to the kernel"
        by "cgo and system calls; long ones give their CPU away"
        set ["env.GOMAXPROCS", "env.GODEBUG"]
        next "count them; do more in each call";
    ["runtime.netpoll*", "internal/poll.*", "runtime.epollwait"] in ANY
        what "Go: waiting for sockets and pipes"
        by "network I/O"
        set ["env.GOMAXPROCS", "env.GODEBUG"]
        next "compare bytes per call";
    ["G1ParScanThreadState::*", "G1ParCopyClosure*", "G1ParEvacuateFollowersClosure::*", "G1CollectedHeap::do_collection_pause_at_safepoint*", "G1YoungCollector::*", "G1EvacuateRegionsTask::*", "G1ScanHRForRegionClosure::*", "G1RemSet::*"] in HOTSPOT time of "gc.more"
        what "Java, G1: copying live objects in a pause"
        by "a young generation that is full"
        set ["hotspot: -XX:MaxGCPauseMillis", "hotspot: -XX:G1NewSizePercent", "hotspot: -Xmx", "env.JAVA_TOOL_OPTIONS"]
        next "-Xlog:gc* tells how often and how much is copied; allocate less or give more heap";
    ["G1FullCollector::*", "G1FullGCMarker::*", "G1FullGCCompactTask::*", "G1CollectedHeap::do_full_collection", "SerialFullGC::*", "GenMarkSweep::*", "MarkSweep::*", "TenuredGeneration::*"] in HOTSPOT time of "gc.more"
        what "Java: a full collection with the program stopped"
        by "a heap that is nearly full of live objects, large objects, System.gc"
        set ["hotspot: -Xmx", "hotspot: -XX:InitiatingHeapOccupancyPercent", "hotspot: -XX:+ExplicitGCInvokesConcurrent"]
        next "look for 'Pause Full' and its reason in -Xlog:gc";
    ["G1CMTask::*", "G1ConcurrentMark::*", "G1ConcurrentMarkThread::*", "G1CMOopClosure::*", "G1ConcurrentRefine*", "G1DirtyCardQueueSet::*"] in HOTSPOT time of "gc.more"
        what "Java, G1: marking and refining beside the program"
        by "an old generation above the threshold, and writes of references between regions"
        set ["hotspot: -XX:InitiatingHeapOccupancyPercent", "hotspot: -XX:ConcGCThreads", "hotspot: -Xmx"]
        next "-Xlog:gc tells how often it runs; it takes CPUs from the program";
    ["PSPromotionManager::*", "PSScavenge::*", "PSParallelCompact::*", "ParCompactionManager::*", "MutableSpace::*", "DefNewGeneration::*", "PSCardTable::*", "ContiguousSpace::*", "CompactibleSpace::*", "OffsetTableContigSpace::*", "OopOopIterateDispatch*", "OopOopIterateBoundedDispatch*", "OopOopIterateBackwardsDispatch*"] in HOTSPOT time of "gc.more"
        what "Java, parallel and serial collectors: copying or compacting with the program stopped"
        by "a generation that is full; the serial one is the default on small containers"
        set ["hotspot: -XX:+UseParallelGC", "hotspot: -Xmn", "hotspot: -Xmx", "hotspot: -XX:ParallelGCThreads"]
        next "-Xlog:gc tells which collector runs: a host with one CPU or under 2 GB gets the serial one";
    ["ZMark::*", "ZRelocate*", "ZBarrier::*", "ZDriver*", "ZHeapIterator::*", "ZGenerationOld::*", "ZGenerationYoung::*", "ZPageAllocator::*", "ZUncommitter::*", "ZRemembered::*"] in HOTSPOT time of "gc.more"
        what "Java, ZGC: marking and moving objects beside the program"
        by "allocation, and barriers at reads of references"
        set ["hotspot: -XX:+UseZGC", "hotspot: -Xmx", "hotspot: -XX:ZUncommitDelay", "thp.shmem_enabled"]
        next "look for 'Allocation Stall' in -Xlog:gc: the heap is too small for the rate";
    ["ShenandoahConcurrentMark::*", "ShenandoahHeap::*", "ShenandoahBarrierSet::*", "ShenandoahMark::*", "ShenandoahEvacuat*", "ShenandoahControlThread::*"] in HOTSPOT time of "gc.more"
        what "Java, Shenandoah: marking and moving objects beside the program"
        by "allocation, and barriers"
        set ["hotspot: -XX:ShenandoahGCHeuristics", "hotspot: -Xmx"]
        next "look for 'Degenerated' and 'Pacing' in -Xlog:gc";
    ["SafepointSynchronize::*", "VMThread::*", "VM_*", "HandshakeState::*", "SafepointMechanism::*"] in HOTSPOT
        what "Java: stopping all threads for an operation of the virtual machine"
        by "collections, deoptimisation, thread dumps, biased locks in old releases"
        set ["hotspot: -XX:GuaranteedSafepointInterval", "hotspot: -Xlog:safepoint", "hotspot: -XX:+UseCountedLoopSafepoints"]
        next "-Xlog:safepoint tells the operation, and the time until all threads had stopped";
    ["CompileBroker::*", "C2Compiler::*", "Compile::*", "Compilation::*", "PhaseChaitin::*", "PhaseIdealLoop::*", "PhaseIterGVN::*", "Parse::*", "PhaseCFG::*", "LinearScan::*", "GraphBuilder::*"] in HOTSPOT
        what "Java: compiling methods"
        by "starts and warm-up, methods that were deoptimised, a full code cache"
        set ["hotspot: -XX:ReservedCodeCacheSize", "hotspot: -XX:TieredStopAtLevel", "hotspot: -XX:CICompilerCount"]
        next "measure after the warm-up; -Xlog:jit+compilation tells what is compiled again and again";
    ["Deoptimization::*", "vframeArray::*", "InterpreterRuntime::*", "LinkResolver::*", "SharedRuntime::*"] in HOTSPOT
        what "Java: the interpreter's helpers, resolving calls, and leaving compiled code"
        by "code that is not compiled yet, or whose assumptions failed"
        set ["hotspot: -XX:TieredStopAtLevel", "hotspot: -XX:PerMethodTrapLimit"]
        next "-Xlog:deoptimization tells the reasons; see whether the warm-up is over";
    ["ObjectMonitor::*", "ObjectSynchronizer::*", "Unsafe_Park", "Unsafe_Unpark", "Parker::*", "PlatformEvent::*", "LightweightSynchronizer::*"] in HOTSPOT
        what "Java: locks, and threads that wait"
        by "contended synchronized blocks and java.util.concurrent"
        set ["hotspot: -XX:LockingMode", "program: number of threads"]
        next "take a lock profile (JFR jdk.JavaMonitorEnter, jdk.ThreadPark)";
    ["MemAllocator::*", "OptoRuntime::*", "Runtime1::*", "G1CollectedHeap::attempt_allocation*", "G1Allocator::*", "CollectedHeap::*", "ThreadLocalAllocBuffer::*", "InstanceKlass::allocate_instance"] in HOTSPOT
        what "Java: allocating outside a thread's buffer"
        by "buffers that are used up, and objects larger than what is left of them"
        set ["hotspot: -XX:TLABSize", "hotspot: -Xmx", "hotspot: -XX:G1HeapRegionSize"]
        next "take an allocation profile; objects above half a region are 'humongous' in G1";
    ["os::pretouch_memory", "os::Linux::*", "os::commit_memory*", "os::uncommit_memory*", "PretouchTask::*", "G1PageBasedVirtualSpace::*", "os::pd_*"] in HOTSPOT
        what "Java: taking memory from the kernel, touching it, giving it back"
        by "a heap that grows or shrinks, and -XX:+AlwaysPreTouch at the start"
        set ["hotspot: -Xms", "hotspot: -XX:+AlwaysPreTouch", "hotspot: -XX:+UseTransparentHugePages", "thp.enabled"]
        next "-Xms equal to -Xmx keeps the size; compare faults";
    ["ClassFileParser::*", "SystemDictionary::*", "ClassLoader::*", "Verifier::*", "ClassVerifier::*", "SymbolTable::*", "StringTable::*", "JVM_DefineClass*", "JVM_FindClass*"] in HOTSPOT
        what "Java: loading and verifying classes, interning strings"
        by "starts, frameworks that generate classes, String.intern"
        set ["hotspot: -XX:SharedArchiveFile", "hotspot: -XX:StringTableSize"]
        next "count loaded classes over time; class data sharing makes starts faster";
    ["Java_java_io_*", "Java_sun_nio_*", "Java_java_util_zip_*", "Java_java_net_*", "handleRead", "handleWrite", "readBytes", "writeBytes"] in JDK
        what "Java: native parts of files, sockets and compression"
        by "I/O of the program"
        set ["hotspot: -XX:MaxDirectMemorySize", "program: buffer size"]
        next "compare bytes per call; heap buffers are copied once more than direct ones";
    ["_PyEval_EvalFrameDefault", "_PyEval_Vector", "_PyFunction_Vectorcall", "_PyObject_MakeTpCall", "PyObject_Vectorcall", "_PyEval_EvalFrame"] in PYTHON
        what "Python: the interpreter's loop"
        by "Python code that runs"
        set ["python: -X perf", "python: --enable-experimental-jit", "python: PYTHON_JIT"]
        next "see which Python functions: run with -X perf, or take a profile in Python";
    ["_PyObject_Malloc", "_PyObject_Free", "_PyObject_Realloc", "pymalloc_alloc", "pymalloc_free", "PyObject_Malloc", "PyObject_Free", "new_arena", "_PyObject_New", "PyType_GenericAlloc", "_PyType_AllocNoTrack"] in PYTHON
        what "Python: allocating objects"
        by "numbers, tuples, strings and frames that come and go"
        set ["env.PYTHONMALLOC", "env.GLIBC_TUNABLES", "env.LD_PRELOAD"]
        next "see whether arenas (1 MiB since 3.10, 256 KiB before) are mapped and unmapped again and again: count mmap";
    ["gc_collect_main", "gc_collect_region", "gc_collect_generations", "deduce_unreachable", "subtract_refs", "visit_decref", "visit_reachable", "update_refs", "move_unreachable", "PyGC_Collect", "_PyGC_Collect", "gc_collect_young", "gc_collect_increment", "dict_traverse", "tupletraverse", "list_traverse", "func_traverse", "subtype_traverse", "set_traverse", "untrack_tuples", "untrack_dicts", "delete_garbage", "handle_weakrefs", "_PyObject_IS_GC"] in PYTHON time of "gc.more"
        what "Python: searching for cycles of objects that nobody reaches"
        by "more container objects allocated than freed, beyond a threshold"
        set ["python: gc.set_threshold", "python: gc.freeze", "python: gc.disable"]
        next "gc.callbacks tells how often; with many live objects raise the threshold or freeze them after start";
    ["take_gil", "drop_gil", "drop_gil_impl", "_PyEval_AcquireLock", "PyEval_RestoreThread", "PyEval_SaveThread", "_PyMutex_LockTimed", "_PyParkingLot_Park", "PyThread_acquire_lock_timed"] in PYTHON
        what "Python: waiting for the interpreter's lock, or another"
        by "several threads of Python in one process"
        set ["python: sys.setswitchinterval", "python: PYTHON_GIL", "program: number of threads"]
        next "processes in place of threads, or a free-threaded build; compare which thread holds it";
    ["lookdict*", "_Py_dict_lookup", "_PyDict_*", "PyDict_*", "dictresize", "unicodekeys_lookup_*", "insertdict", "insert_to_emptydict", "dict_subscript"] in PYTHON
        what "Python: dictionaries"
        by "attributes, globals, and dictionaries of the program"
        set ["env.PYTHONHASHSEED", "thp.enabled"]
        next "compare sizes; a large one costs a cache miss per lookup";
    ["_PyObject_GenericGetAttrWithDict", "_PyType_Lookup*", "PyObject_GetAttr", "_PyObject_GetMethod", "slot_tp_getattr_hook", "find_name_in_mro", "_Py_type_getattro*", "_PySuper_Lookup"] in PYTHON
        what "Python: finding attributes and methods"
        by "attribute accesses that the interpreter could not specialise"
        set ["python: __slots__", "python: version"]
        next "3.11 and later specialise common ones: compare versions; classes that are changed at run time lose it";
    ["list_sort_impl", "list_sort", "binarysort", "merge_lo", "merge_hi", "gallop_left", "gallop_right", "unsafe_latin_compare", "unsafe_long_compare", "list_resize", "list_extend*", "list_append"] in PYTHON
        what "Python: lists that are sorted or grow"
        by "sort, sorted, append"
        set ["program: key function", "env.PYTHONMALLOC"]
        next "see the key function: it is called once for each element";
    ["PyUnicode_*", "_PyUnicode_*", "unicode_concatenate", "unicode_eq", "ascii_decode", "unicode_decode_utf8*", "unicode_hash", "resize_compact", "_PyUnicodeWriter_*", "stringlib_*", "ucs1lib_*"] in PYTHON
        what "Python: text: decoding, joining, searching"
        by "text that is read, put together or split"
        set ["env.LANG", "program: ''.join"]
        next "see whether bytes would do; join once in place of += in a loop";
    ["x_mul", "k_mul", "x_add", "x_divrem", "long_mul", "l_divmod", "_PyLong_*", "PyLong_*", "long_to_decimal_string_internal", "float_*", "PyNumber_*"] in PYTHON
        what "Python: arithmetic on objects"
        by "loops over numbers"
        set ["python: version", "program: numpy"]
        next "move the loop into a library that works on arrays";
    ["_PyImport_*", "PyImport_*", "import_find_and_load", "marshal_load*", "r_object", "PyMarshal_*", "_PyParser_*", "_PyAST_*", "_PyCompile_*"] in PYTHON
        what "Python: importing modules, or compiling them"
        by "starts, and caches of compiled modules that are missing or not writable"
        set ["python: PYTHONDONTWRITEBYTECODE", "python: PYTHONPYCACHEPREFIX", "python: -X importtime"]
        next "-X importtime tells the modules";
    ["subtype_dealloc", "tupledealloc", "tuple_dealloc", "list_dealloc", "dict_dealloc", "_Py_Dealloc", "frame_dealloc", "PyObject_ClearWeakRefs", "dict_keys_decref", "unicode_dealloc"] in PYTHON
        what "Python: freeing objects when their last reference goes"
        by "large structures that are dropped, and temporary objects"
        set ["env.PYTHONMALLOC", "python: gc.freeze"]
        next "see the caller; dropping a large structure takes as long as building it";
    ["v8::internal::Scavenger*", "v8::internal::ScavengeVisitor::*", "v8::internal::SemiSpaceNewSpace::*", "v8::internal::IterateAndScavengePromotedObjectsVisitor::*"] in ANY time of "gc.more"
        what "JavaScript (V8): copying live young objects"
        by "allocation that fills the young generation"
        set ["env.NODE_OPTIONS", "nodejs: --max-semi-space-size"]
        next "--trace-gc tells how often; a larger --max-semi-space-size copies less";
    ["v8::internal::MarkCompactCollector::*", "v8::internal::MarkingVisitorBase*", "v8::internal::ConcurrentMarking*", "v8::internal::MainMarkingVisitor*", "v8::internal::IncrementalMarking::*", "v8::internal::Evacuator*", "v8::internal::ConcurrentMarkingVisitor*"] in ANY time of "gc.more"
        what "JavaScript (V8): marking and compacting the old generation"
        by "old objects that grow in number, or a heap near its limit"
        set ["env.NODE_OPTIONS", "nodejs: --max-old-space-size"]
        next "--trace-gc tells 'Mark-Compact' and its reason; near the limit it runs again and again";
    ["v8::internal::Heap::*", "v8::internal::HeapAllocator::*", "v8::internal::Factory::*", "v8::internal::FactoryBase*", "v8::internal::MainAllocator::*", "v8::internal::PagedSpace*"] in ANY
        what "JavaScript (V8): allocating outside compiled code, and beginning collections"
        by "objects, arrays and strings that the runtime makes"
        set ["env.NODE_OPTIONS", "nodejs: --max-old-space-size", "nodejs: --max-semi-space-size"]
        next "take an allocation profile (--heap-prof)";
    ["v8::internal::Sweeper*", "v8::internal::MemoryAllocator::*", "v8::base::OS::*", "v8::internal::ArrayBufferSweeper::*", "v8::base::PageAllocator::*"] in ANY
        what "JavaScript (V8): sweeping, and memory from the kernel and back to it"
        by "collections"
        set ["env.NODE_OPTIONS", "nodejs: --max-old-space-size", "thp.enabled"]
        next "count madvise, munmap and faults";
    ["v8::internal::compiler::*", "v8::internal::maglev::*", "v8::internal::OptimizingCompileDispatcher*", "v8::internal::TurbofanCompilationJob::*", "v8::internal::baseline::*"] in ANY
        what "JavaScript (V8): compiling hot functions"
        by "warm-up, and functions that were deoptimised"
        set ["env.NODE_OPTIONS", "nodejs: --max-lazy", "nodejs: --jitless"]
        next "measure after the warm-up; --trace-opt and --trace-deopt tell what is compiled again and again";
    ["v8::internal::Deoptimizer::*", "v8::internal::Runtime_NotifyDeoptimized", "v8::internal::TranslatedState::*", "v8::internal::Deoptimize*"] in ANY
        what "JavaScript (V8): leaving optimised code"
        by "values of other kinds than the code was compiled for"
        set ["env.NODE_OPTIONS", "nodejs: --trace-deopt"]
        next "--trace-deopt tells function and reason";
    ["v8::internal::LoadIC::*", "v8::internal::StoreIC::*", "v8::internal::KeyedLoadIC::*", "v8::internal::KeyedStoreIC::*", "v8::internal::Runtime_LoadIC_Miss", "v8::internal::Runtime_KeyedLoadIC_Miss", "v8::internal::LookupIterator::*", "v8::internal::StubCache::*"] in ANY
        what "JavaScript (V8): property accesses that the caches of a place in the code do not hold"
        by "objects of many shapes at one place, properties that are deleted, dictionaries"
        set ["env.NODE_OPTIONS", "nodejs: --log-ic"]
        next "--log-ic tells the places; make objects with the same properties in the same order";
    ["v8::internal::Parser::*", "v8::internal::ParserBase*", "v8::internal::PreParser::*", "v8::internal::Scanner::*", "v8::internal::interpreter::*", "v8::internal::Compiler::*", "v8::internal::BackgroundCompileTask::*"] in ANY
        what "JavaScript (V8): parsing source and making bytecode"
        by "starts, and large bundles"
        set ["env.NODE_OPTIONS", "nodejs: NODE_COMPILE_CACHE"]
        next "a compile cache or a snapshot saves it at the next start";
    ["v8::internal::JsonParser*", "v8::internal::JsonStringifier*", "v8::internal::JsonParse", "v8::internal::JsonStringify"] in ANY
        what "JavaScript (V8): JSON"
        by "JSON.parse and JSON.stringify"
        set ["program: message size", "nodejs: --max-semi-space-size"]
        next "compare bytes; large messages also fill the young generation";
    ["v8::internal::String::*", "v8::internal::StringTable::*", "v8::internal::IncrementalStringBuilder::*", "v8::internal::RegExp*", "v8::internal::IrregexpInterpreter::*"] in ANY
        what "JavaScript (V8): strings that are flattened, compared or searched"
        by "text put together piece by piece and then read, and regular expressions"
        set ["env.NODE_OPTIONS", "program: regular expressions"]
        next "see the caller; buffers in place of strings for bytes";
    ["Builtins_*"] in ANY
        what "JavaScript (V8): functions of the language that V8 brings compiled, and its interpreter"
        by "library functions of JavaScript; Builtins_InterpreterEntryTrampoline is code that is not compiled yet"
        set ["env.NODE_OPTIONS", "nodejs: --interpreted-frames-native-stack"]
        next "--perf-basic-prof names the functions of the program";
    ["uv__io_poll", "uv__run_timers", "uv__work_done", "uv__fs_work", "uv_run", "node::InternalCallbackScope::*", "uv__fs_read", "uv__fs_write"] in ANY
        what "Node.js: the event loop and its four threads for files"
        by "events of sockets and timers; calls on files go to the threads"
        set ["nodejs: UV_THREADPOOL_SIZE", "env.NODE_OPTIONS"]
        next "see whether the threads are all busy: files, DNS, zlib and crypto share them";
};
