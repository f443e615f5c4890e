-- An export of Nsight Systems (nsys export --type sqlite) with the tables and columns that its documentation lists, written
-- by hand. One GPU, three steps of 1000, 1200 and 1100 us marked by NVTX ranges, each with two GEMMs, an all-reduce and a copy.
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, totalMemory INTEGER,
                              clockRate INTEGER, smCount INTEGER, chipName TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, globalTid INTEGER,
                                          correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                                         contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
                                         globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL,
                                         gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,
                                         blockZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                                         contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
                                         globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
                          color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER,
                          uint64Value INTEGER, jsonTextId INTEGER, jsonText TEXT);
INSERT INTO StringIds VALUES
 (1, 'void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>'),
 (2, 'cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8'),
 (3, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)'),
 (4, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'),
 (5, 'cudaLaunchKernel_v7000'),
 (6, 'aten::mm, seq = 10, op_id = 3, sizes = [[4096, 1024], [1024, 2048]], input_op_ids = [(2,0)]'),
 (7, 'aten::mm, op_id = 9, sizes = [[2048, 4096], [4096, 1024]]'),
 (8, 'MmBackward0, seq = 10, op_id = 8'),
 (9, 'ncclAllReduce'),
 (10, '{"Message size [bytes]": 8388608, "Reduction operation": "Sum"}');
INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA A100-SXM4-80GB', '0000:07:00.0', 85197848576, 1410000000, 108, 'GA100');
-- globalPid of process 77 is 77 * 0x1000000; its threads add their number.
INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES
 (1000000, 2000000, 59, 'iteration 1', 1291845633), (2000000, 3200000, 59, 'iteration 2', 1291845633),
 (3200000, 4300000, 59, 'iteration 3', 1291845633);
INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, jsonTextId) VALUES
 (1010000, 1030000, 59, 1291845633, 6, NULL), (1040000, 1080000, 59, 1291845634, 8, NULL), (1045000, 1070000, 59, 1291845634, 7, NULL),
 (1082000, 1090000, 59, 1291845634, 9, 10);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1015000, 1018000, 0, 1291845633, 100, 5, 0), (1050000, 1053000, 0, 1291845634, 101, 5, 0),
 (1084000, 1087000, 0, 1291845634, 102, 5, 0);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
 (1100000, 1290000, 0, 1, 7, 100, 1291845632, 1, 2, 128, 1, 1, 256, 1, 1),
 (1290000, 1510000, 0, 1, 7, 101, 1291845632, 1, 2, 128, 1, 1, 256, 1, 1),
 (1490000, 1590000, 0, 1, 20, 102, 1291845632, 3, 4, 16, 1, 1, 512, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1650000, 1655000, 0, 1, 7, 103, 1291845632, 65536, 1);
INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, jsonTextId) VALUES
 (2010000, 2030000, 59, 1291845633, 6, NULL), (2040000, 2080000, 59, 1291845634, 8, NULL), (2045000, 2070000, 59, 1291845634, 7, NULL),
 (2082000, 2090000, 59, 1291845634, 9, 10);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (2015000, 2018000, 0, 1291845633, 200, 5, 0), (2050000, 2053000, 0, 1291845634, 201, 5, 0),
 (2084000, 2087000, 0, 1291845634, 202, 5, 0);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
 (2100000, 2330000, 0, 1, 7, 200, 1291845632, 1, 2, 128, 1, 1, 256, 1, 1),
 (2330000, 2550000, 0, 1, 7, 201, 1291845632, 1, 2, 128, 1, 1, 256, 1, 1),
 (2530000, 2630000, 0, 1, 20, 202, 1291845632, 3, 4, 16, 1, 1, 512, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (2650000, 2655000, 0, 1, 7, 203, 1291845632, 65536, 1);
INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, jsonTextId) VALUES
 (3210000, 3230000, 59, 1291845633, 6, NULL), (3240000, 3280000, 59, 1291845634, 8, NULL), (3245000, 3270000, 59, 1291845634, 7, NULL),
 (3282000, 3290000, 59, 1291845634, 9, 10);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (3215000, 3218000, 0, 1291845633, 300, 5, 0), (3250000, 3253000, 0, 1291845634, 301, 5, 0),
 (3284000, 3287000, 0, 1291845634, 302, 5, 0);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
 (3300000, 3500000, 0, 1, 7, 300, 1291845632, 1, 2, 128, 1, 1, 256, 1, 1),
 (3500000, 3720000, 0, 1, 7, 301, 1291845632, 1, 2, 128, 1, 1, 256, 1, 1),
 (3700000, 3800000, 0, 1, 20, 302, 1291845632, 3, 4, 16, 1, 1, 512, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3850000, 3855000, 0, 1, 7, 303, 1291845632, 65536, 1);
